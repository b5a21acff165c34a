// Checks that operators of the CPU and of the GPU share. An operator that reads memory itself must refuse every tensor
// that it would read past the end of.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <initializer_list>
#include <optional>

namespace temper {

using OptionalTensor = std::optional<at::Tensor>;

/** Returns true if autograd needs an operator to save what its gradient needs. */
inline bool needsGradient(std::initializer_list<at::Tensor> tensors) {
  if (!c10::GradMode::is_enabled()) return false;
  for (const auto& tensor : tensors)
    if (tensor.defined() && tensor.requires_grad()) return true;
  return false;
}

/** Refuses tensors that require gradients: an operator without a derivative would drop them silently. */
inline void rejectGradients(std::initializer_list<at::Tensor> tensors) {
  TORCH_CHECK(!needsGradient(tensors),
              "this operator has no gradient, but an argument requires one; call it inside noGrad, or detach its arguments");
}

/** Returns true if the type is one that our kernels compute with. */
inline bool isFloatOrBf16(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16;
}

}  // namespace temper
