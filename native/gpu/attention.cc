// temper::packed_attention and temper::short_attention: attention without padding on a GPU, by libtorch's flash attention
// or by gpu/kernels/attention.cu. cpu/attention.cc is the sibling on a CPU.
#ifdef TEMPER_CUDA
#include <torch/library.h>

#include <cmath>

#include "gpu/launch.h"

namespace temper {
namespace {

/** Makes libtorch choose deterministic kernels until the end of a block. */
class DeterministicGuard {
 public:
  explicit DeterministicGuard(bool active) : active_(active) {
    auto& context = at::globalContext();
    before_ = context.deterministicAlgorithms();
    warnOnly_ = context.deterministicAlgorithmsWarnOnly();
    if (active_) context.setDeterministicAlgorithms(true, false);
  }
  ~DeterministicGuard() {
    if (active_) at::globalContext().setDeterministicAlgorithms(before_, warnOnly_);
  }

 private:
  bool active_, before_, warnOnly_;
};

/** From this number of keys on, several blocks add to a gradient, in any order by default. */
constexpr int64_t keysPerBlock = 128;

/** Attention within texts that follow each other without padding, by libtorch's flash attention. */
struct PackedAttention : torch::autograd::Function<PackedAttention> {
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& key, const Tensor& value,
                        const Tensor& queryStarts, const Tensor& keyStarts, int64_t maxQueries, int64_t maxKeys,
                        double p) {
    auto [output, logSumExp, state, unused, mask] =
        at::_flash_attention_forward(query, key, value, queryStarts, keyStarts, maxQueries, maxKeys, p, false, false);
    context->save_for_backward({query, key, value, queryStarts, keyStarts, output, logSumExp, state, unused});
    context->saved_data["maxQueries"] = maxQueries;
    context->saved_data["maxKeys"] = maxKeys;
    context->saved_data["p"] = p;
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    rejectSecondDerivative();
    auto saved = context->get_saved_variables();
    int64_t maxKeys = context->saved_data["maxKeys"].toInt();
    DeterministicGuard guard(maxKeys > keysPerBlock);
    auto [query, key, value] =
        at::_flash_attention_backward(gradients[0].contiguous(), saved[0], saved[1], saved[2], saved[5], saved[6],
                                      saved[3], saved[4], context->saved_data["maxQueries"].toInt(), maxKeys,
                                      context->saved_data["p"].toDouble(), false, saved[7], saved[8]);
    return {query, key, value, Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

Tensor packedAttention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& queryStarts,
                       const Tensor& keyStarts, int64_t maxQueries, int64_t maxKeys, double p) {
  TORCH_CHECK(p >= 0 && p < 1, "expected a probability in [0, 1), received ", p);
  for (const Tensor& tensor : {query, key, value})
    TORCH_CHECK(tensor.is_cuda() && tensor.device() == query.device() && tensor.dim() == 3 &&
                    tensor.scalar_type() == query.scalar_type() && tensor.size(1) == query.size(1) &&
                    tensor.size(2) == query.size(2),
                "expected projections [token, head, width] of one dtype on a GPU");
  for (const Tensor& starts : {queryStarts, keyStarts}) {
    checkIndices(starts, query, at::kInt);
    TORCH_CHECK(starts.dim() == 1 && starts.is_contiguous() && starts.numel() == queryStarts.numel() &&
                    starts.numel() > 0,
                "expected the starts of texts");
  }
  TORCH_CHECK(key.size(0) == value.size(0) && maxQueries >= 0 && maxKeys >= 0, "expected a value per key");
  if (query.numel() == 0) return query.clone();
  return PackedAttention::apply(query, key, value, queryStarts, keyStarts, maxQueries, maxKeys, p);
}

/**
 * Where the texts of a batch are (gpu/kernels/attention.cu). `outputs` is 0, or the number of
 * texts whose first token has an output.
 */
struct ShortTexts {
  Tensor starts, outputStarts;
  int64_t heads, length, outputs;

  unsigned count(const Tensor& projections) const {
    return static_cast<unsigned>(starts.defined() ? starts.numel() - 1 : projections.size(0) / length);
  }
};

/** The largest text of the smallest kernel that can compute a length. */
int64_t getMaxKeys(int64_t length) { return length <= 64 ? 64 : 128; }

struct ShortAttention : torch::autograd::Function<ShortAttention> {
  static Tensor forward(AutogradContext* context, const Tensor& projections, const OptionalTensor& starts,
                        const OptionalTensor& outputStarts, int64_t heads, int64_t length, int64_t outputs,
                        const OptionalTensor& seed, double p) {
    ShortTexts texts{starts.value_or(Tensor()), outputStarts.value_or(Tensor()), heads, length, outputs};
    int64_t rows = outputs > 0 ? outputs : projections.size(0);
    Tensor logSums = at::empty({heads, rows}, projections.options().dtype(at::kFloat));
    Tensor output = compute(projections, texts, logSums, seed.value_or(Tensor()), p);
    context->save_for_backward(
        {projections, texts.starts, texts.outputStarts, output, logSums, seed.value_or(Tensor())});
    context->saved_data["heads"] = heads;
    context->saved_data["length"] = length;
    context->saved_data["outputs"] = outputs;
    context->saved_data["p"] = p;
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    rejectSecondDerivative();
    auto saved = context->get_saved_variables();
    const Tensor& projections = saved[0];
    auto getInteger = [&](const char* name) { return context->saved_data[name].toInt(); };
    ShortTexts texts{saved[1], saved[2], getInteger("heads"), getInteger("length"), getInteger("outputs")};
    Tensor gradient = toAligned(gradients[0]), projectionGradient = at::empty_like(projections);
    int64_t width = projections.size(1) / 3 / texts.heads, keys = getMaxKeys(texts.length);
    // Queries, keys, values and gradients, the gradients of the scores, and two numbers per query.
    auto sharedBytes = static_cast<unsigned>(keys * (4 * (width + 8) * 2 + (keys + 8) * 2 + 2 * 4));
    auto kernel = find(texts, width, "attention_backward");
    allowSharedMemory(kernel, sharedBytes);
    launchWithMemory(kernel, dim3(texts.count(projections), texts.heads), 2 * keys, sharedBytes, read(projections),
                     read(texts.starts), read(texts.outputStarts), read(saved[3]), read(gradient), read(saved[4]),
                     write(projectionGradient), makeDropout(saved[5], context->saved_data["p"].toDouble()),
                     getScale(width), static_cast<int>(texts.heads), static_cast<int>(texts.length),
                     static_cast<int>(saved[3].size(0)), static_cast<int>(texts.outputs > 0));
    return {projectionGradient, Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }

  static float getScale(int64_t width) { return static_cast<float>(1 / std::sqrt(static_cast<double>(width))); }

  static CUfunction find(const ShortTexts& texts, int64_t width, const char* name) {
    return findKernel("attention-" + std::to_string(getMaxKeys(texts.length)), width, at::kBFloat16, name);
  }

  static Tensor compute(const Tensor& projections, const ShortTexts& texts, const Tensor& logSums, const Tensor& seed,
                        double p) {
    int64_t hidden = projections.size(1) / 3, width = hidden / texts.heads;
    Tensor output = at::empty({texts.outputs > 0 ? texts.outputs : projections.size(0), hidden}, projections.options());
    auto kernel = find(texts, width, "attention_forward");
    allowSharedMemory(kernel, 0);
    launch(kernel, dim3(texts.count(projections), texts.heads), 2 * getMaxKeys(texts.length), read(projections),
           read(texts.starts), read(texts.outputStarts), write(output), write(logSums), makeDropout(seed, p),
           getScale(width), static_cast<int>(texts.heads), static_cast<int>(texts.length),
           static_cast<int>(output.size(0)), static_cast<int>(texts.outputs > 0));
    return output;
  }
};

/**
 * Attention within texts of at most 128 tokens: projections [token, 3 * hidden] ->
 * [output, hidden].
 */
Tensor shortAttention(const Tensor& projections, const OptionalTensor& starts, const OptionalTensor& outputStarts,
                      int64_t heads, int64_t length, int64_t outputs, const OptionalTensor& seed, double p) {
  TORCH_CHECK(projections.is_cuda() && projections.scalar_type() == at::kBFloat16 && projections.dim() == 2,
              "expected projections [token, 3 * hidden] in bfloat16 on a GPU");
  TORCH_CHECK(length >= 1 && length <= 128, "expected at most 128 tokens per text, received ", length);
  TORCH_CHECK(heads > 0 && projections.size(1) > 0 && projections.size(1) % (3 * heads) == 0,
              "expected projections of ", heads, " heads");
  checkInput(projections, 3 * heads);
  checkDropout(seed, p);
  for (const OptionalTensor& integers : {starts, outputStarts}) {
    checkIndices(integers, projections, at::kInt);
    TORCH_CHECK(!integers || (integers->dim() == 1 && integers->is_contiguous() && integers->numel() > 0),
                "expected the starts of texts");
  }
  TORCH_CHECK(starts || projections.size(0) % length == 0, "expected texts of ", length, " tokens");
  const int64_t count = starts ? starts->numel() - 1 : projections.size(0) / length;
  TORCH_CHECK(outputs >= 0 && outputs <= count && (!outputStarts || outputStarts->numel() == count + 1) &&
                  (outputStarts || outputs == 0 || outputs == count),
              "expected at most one output per text, and the starts of ", count, " texts");
  Tensor input = toAligned(projections);
  if (needsGradient({input}))
    return ShortAttention::apply(input, starts, outputStarts, heads, length, outputs, seed, p);
  ShortTexts texts{starts.value_or(Tensor()), outputStarts.value_or(Tensor()), heads, length, outputs};
  return ShortAttention::compute(input, texts, Tensor(), seed.value_or(Tensor()), p);
}

TORCH_LIBRARY_FRAGMENT(temper, library) {
  library.def(
      "packed_attention(Tensor query, Tensor key, Tensor value, Tensor query_starts, Tensor key_starts, "
      "int max_queries, int max_keys, float p) -> Tensor",
      packedAttention);
  library.def(
      "short_attention(Tensor projections, Tensor? starts, Tensor? output_starts, int heads, int length, int outputs, "
      "Tensor? seed, float p) -> Tensor",
      shortAttention);
}

}  // namespace
}  // namespace temper
#endif
