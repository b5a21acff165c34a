// How operators of our own launch the kernels of gpu/kernels, which JavaScript compiles and
// loads first (`loadKernels`). Included only if TEMPER_CUDA is defined.
#pragma once
#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <torch/csrc/autograd/custom_function.h>

#include <initializer_list>
#include <optional>
#include <string>

namespace temper {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/** Finds a kernel in a loaded file. */
CUfunction findKernel(const std::string& file, int64_t width, at::ScalarType dtype, const char* name);

/** Lets a kernel use this much dynamic shared memory, and as much of a processor as possible. */
void allowSharedMemory(CUfunction function, unsigned bytes);

/** Launches a kernel on the current stream. */
void launchKernel(CUfunction function, dim3 grid, unsigned threads, unsigned sharedBytes, void** arguments);

template <typename... Arguments>
void launchWithMemory(CUfunction function, dim3 grid, unsigned threads, unsigned sharedBytes, Arguments... arguments) {
  void* pointers[] = {&arguments...};
  launchKernel(function, grid, threads, sharedBytes, pointers);
}

template <typename... Arguments>
void launch(CUfunction function, dim3 grid, unsigned threads, Arguments... arguments) {
  launchWithMemory(function, grid, threads, 0, arguments...);
}

inline const void* read(const Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr() : nullptr; }
inline void* write(const Tensor& tensor) { return tensor.defined() ? tensor.mutable_data_ptr() : nullptr; }

inline unsigned divideUp(int64_t count, int64_t size) { return static_cast<unsigned>((count + size - 1) / size); }

/** As `Dropout` in prelude.cuh. */
struct Dropout {
  const void* seed;
  uint32_t limit;
  float scale;
};

inline Dropout makeDropout(const Tensor& seed, double p) {
  return {read(seed), static_cast<uint32_t>(p * 4294967296.0), static_cast<float>(1 / (1 - p))};
}

/** Whether autograd needs an operator to save what its gradient needs. */
inline bool needsGradient(std::initializer_list<Tensor> tensors) {
  if (!at::GradMode::is_enabled()) return false;
  for (const auto& tensor : tensors)
    if (tensor.defined() && tensor.requires_grad()) return true;
  return false;
}

/** These kernels have no second derivative. */
inline void rejectSecondDerivative() {
  TORCH_CHECK(!at::GradMode::is_enabled(), "fused kernels have no second derivative; set TEMPER_KERNELS=0");
}

/** LayerNorm of a sum, and what its gradient needs. */
struct Normalized {
  Tensor output, sum, statistics;
};

/**
 * Adds rows of partial sums [block, column] in a fixed order. `width` is that of the loaded
 * kernels.
 */
Tensor sumBlocks(const Tensor& partial, int64_t width, at::ScalarType dtype);

}  // namespace temper
