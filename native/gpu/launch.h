// How operators of our own launch the kernels of gpu/kernels, which JavaScript compiles and
// loads first (`loadKernels`). Included only if TEMPER_CUDA is defined.
#pragma once
#include <ATen/ATen.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <string>

#include "binding/checks.h"

namespace temper {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/** Finds a kernel in a loaded file. */
CUfunction findKernel(const std::string& file, int64_t width, at::ScalarType dtype, const char* name);

/** Lets a kernel use this much dynamic shared memory, and as much of a processor as possible. */
void allowSharedMemory(CUfunction function, unsigned bytes);

/** Launches a kernel on the current stream. A grid without blocks (zero rows) has nothing to compute. */
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

/** Refuses a probability of dropout without a scale, and a seed that the kernels cannot read. */
inline void checkDropout(const OptionalTensor& seed, double p) {
  TORCH_CHECK(p >= 0 && p < 1, "expected a probability in [0, 1), received ", p);
  TORCH_CHECK(!seed || (seed->is_cuda() && seed->scalar_type() == at::kLong && seed->numel() == 1),
              "expected a seed in int64 on a GPU");
}

/** Refuses the main input of an operator if there cannot be kernels for it. `multiple` divides its width. */
inline void checkInput(const Tensor& input, int64_t multiple) {
  TORCH_CHECK(input.is_cuda() && input.get_device() == c10::cuda::current_device(), "expected tensors on the current GPU");
  TORCH_CHECK(isFloatOrBf16(input), "expected float32 or bfloat16, received ", input.scalar_type());
  TORCH_CHECK(input.dim() > 0 && input.size(-1) > 0 && input.size(-1) % multiple == 0, "expected rows of a multiple of ",
              multiple, " numbers, received ", input.sizes());
  TORCH_CHECK(input.numel() / input.size(-1) <= std::numeric_limits<int>::max(), "expected fewer rows");
}

/** Refuses a tensor that kernels cannot read together with the input: another device, dtype or number of elements. */
inline void checkLike(const Tensor& tensor, const Tensor& input, int64_t numel, const char* name) {
  TORCH_CHECK(tensor.device() == input.device() && tensor.scalar_type() == input.scalar_type() &&
                  tensor.numel() == numel,
              "expected a ", name, " of ", numel, " numbers in ", input.scalar_type(), " on ", input.device(),
              ", received ", tensor.scalar_type(), tensor.sizes(), " on ", tensor.device());
}

/** Refuses indices of another type or device. Their values are not read, because that would wait for the GPU. */
inline void checkIndices(const OptionalTensor& indices, const Tensor& input, at::ScalarType dtype) {
  TORCH_CHECK(!indices || (indices->device() == input.device() && indices->scalar_type() == dtype), "expected indices in ",
              dtype, " on ", input.device());
}

/** The kernels read groups of 8 or 16 bytes, so other memory is copied. */
inline Tensor toAligned(const Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  Tensor result = tensor.contiguous();
  return reinterpret_cast<uintptr_t>(result.const_data_ptr()) % 16 == 0 ? result : result.clone();
}

inline OptionalTensor toAligned(const OptionalTensor& tensor) {
  return tensor ? OptionalTensor(toAligned(*tensor)) : std::nullopt;
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
