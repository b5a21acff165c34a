// temper::adamw_: one step of AdamW for all parameters (gpu/kernels/adamw.cu).
// On a CPU, libtorch's fused AdamW does it.
#ifdef TEMPER_CUDA
#include <torch/library.h>

#include <cmath>
#include <vector>

#include "gpu/launch.h"

namespace temper {
namespace {

/** As in adamw.cu. */
struct AdamwEntry {
  void *weight, *first, *second;
  const void* gradient;
  void* copy;
  long long count;
  int firstBlock, kind;
};
constexpr int maxAdamwEntries = 64;
constexpr int64_t adamwElementsPerBlock = 4096;
struct AdamwTable {
  AdamwEntry entries[maxAdamwEntries];
  int count;
};
struct AdamwConstants {
  float beta1, beta2, logBeta1, logBeta2, weightDecay, epsilon;
  int hasUncorrectedEpsilon;
};

bool isAligned(const void* pointer, uintptr_t bytes) { return reinterpret_cast<uintptr_t>(pointer) % bytes == 0; }

AdamwEntry makeAdamwEntry(const Tensor& weight, const Tensor& gradient, const Tensor& first, const Tensor& second,
                          const Tensor& copy, int firstBlock) {
  bool isBf16 = gradient.scalar_type() == at::kBFloat16;
  TORCH_CHECK(isFloatOrBf16(gradient) && gradient.device() == weight.device(),
              "expected gradients in float32 or bfloat16 on ", weight.device());
  for (const Tensor& state : {weight, first, second})
    TORCH_CHECK(state.is_cuda() && state.device() == weight.device() && state.is_contiguous() && state.scalar_type() == at::kFloat &&
                    state.numel() == gradient.numel(),
                "expected contiguous float32 tensors of the size of the gradient on a GPU");
  TORCH_CHECK(!copy.defined() ||
                  (copy.device() == weight.device() && copy.is_contiguous() && copy.scalar_type() == at::kBFloat16 && copy.numel() == weight.numel()),
              "expected a contiguous bfloat16 copy of the size of its weight on the same GPU");
  AdamwEntry entry{write(weight), write(first),   write(second), read(gradient),
                   write(copy),   weight.numel(), firstBlock,    isBf16 ? 1 : 0};
  if (isAligned(entry.weight, 16) && isAligned(entry.first, 16) && isAligned(entry.second, 16) &&
      isAligned(entry.gradient, isBf16 ? 8 : 16) && isAligned(entry.copy, 8))
    entry.kind |= 2;
  return entry;
}

/** One step of AdamW in place. `copies` is empty, or has a bfloat16 copy of each weight. */
void adamw(at::TensorList weights, at::TensorList gradients, at::TensorList first, at::TensorList second,
           at::TensorList copies, const Tensor& step, const Tensor& learningRate, const OptionalTensor& clipFactor,
           double beta1, double beta2, double weightDecay, double epsilon, bool hasUncorrectedEpsilon) {
  size_t size = weights.size();
  TORCH_CHECK(gradients.size() == size && first.size() == size && second.size() == size &&
                  (copies.empty() || copies.size() == size),
              "expected lists of ", size, " tensors");
  if (size == 0) return;
  Tensor factor = clipFactor.value_or(Tensor());
  for (const Tensor& scalar : {step, learningRate, factor})
    TORCH_CHECK(!scalar.defined() || (scalar.device() == weights[0].device() && scalar.numel() == 1 && scalar.scalar_type() == at::kFloat),
                "expected one float32 value on the GPU of the weights");
  TORCH_CHECK(weights[0].is_cuda() && weights[0].get_device() == c10::cuda::current_device(),
              "expected tensors on the current GPU");
  AdamwConstants constants{static_cast<float>(beta1),           static_cast<float>(beta2),
                           static_cast<float>(std::log(beta1)), static_cast<float>(std::log(beta2)),
                           static_cast<float>(weightDecay),     static_cast<float>(epsilon),
                           hasUncorrectedEpsilon ? 1 : 0};
  auto kernel = findKernel("adamw", 0, at::kFloat, "adamw_step");
  for (size_t start = 0; start < size; start += maxAdamwEntries) {
    AdamwTable table{};
    std::vector<Tensor> contiguous;  // must live until the launch
    int blocks = 0;
    for (size_t i = start; i < size && table.count < maxAdamwEntries; i++) {
      if (weights[i].numel() == 0 && gradients[i].numel() == 0) continue;
      contiguous.push_back(gradients[i].contiguous());
      table.entries[table.count++] = makeAdamwEntry(weights[i], contiguous.back(), first[i], second[i],
                                                    copies.empty() ? Tensor() : copies[i], blocks);
      blocks += static_cast<int>(divideUp(weights[i].numel(), adamwElementsPerBlock));
    }
    if (blocks > 0) launch(kernel, dim3(blocks), 256, table, read(step), read(learningRate), read(factor), constants);
  }
}

TORCH_LIBRARY_FRAGMENT(temper, library) {
  library.def(
      "adamw_(Tensor[] weights, Tensor[] gradients, Tensor[] first, Tensor[] second, Tensor[] copies, Tensor step, "
      "Tensor learning_rate, Tensor? clip_factor, float beta1, float beta2, float weight_decay, float epsilon, "
      "bool uncorrected_epsilon) -> ()",
      adamw);
}

}  // namespace
}  // namespace temper
#endif
