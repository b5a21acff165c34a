// temper::mix_embeddings: the embeddings of texts in a convex hull (gpu/kernels/mixture.cu).
#ifdef TEMPER_CUDA
#include <torch/library.h>

#include "gpu/launch.h"

namespace temper {
namespace {

struct MixEmbeddings : torch::autograd::Function<MixEmbeddings> {
  static Tensor forward(AutogradContext* context, const Tensor& text, const Tensor& candidates, const Tensor& weights,
                        const Tensor& index) {
    context->save_for_backward({candidates, weights, index});
    context->saved_data["textRows"] = text.size(0);
    context->saved_data["text"] = text.requires_grad();
    context->saved_data["candidates"] = candidates.requires_grad();
    context->saved_data["weights"] = weights.requires_grad();
    return compute(text, candidates, weights, index);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    rejectSecondDerivative();
    auto saved = context->get_saved_variables();
    const Tensor &candidates = saved[0], &weights = saved[1], &index = saved[2];
    int64_t textRows = context->saved_data["textRows"].toInt(), width = candidates.size(2);
    Tensor gradient = toAligned(gradients[0]);
    auto isNeeded = [&](const char* name) { return context->saved_data[name].toBool(); };
    Tensor textGradient = isNeeded("text") ? at::zeros({textRows, width}, gradient.options()) : Tensor();
    Tensor candidateGradient = isNeeded("candidates") ? at::zeros_like(candidates) : Tensor();
    Tensor weightGradient = isNeeded("weights") ? at::zeros_like(weights) : Tensor();
    launch(findKernel("mixture", width, gradient.scalar_type(), "mixture_backward"), dim3(divideUp(index.numel(), 4)),
           128, read(gradient), read(candidates), read(weights), read(index), write(textGradient),
           write(candidateGradient), write(weightGradient), static_cast<int>(textRows),
           static_cast<int>(candidates.size(1)), static_cast<int>(index.numel()));
    return {textGradient, candidateGradient, weightGradient, Tensor()};
  }

  static Tensor compute(const Tensor& text, const Tensor& candidates, const Tensor& weights, const Tensor& index) {
    int64_t width = text.size(1), tokens = index.numel();
    Tensor output = at::empty({tokens, width}, text.options());
    launch(findKernel("mixture", width, text.scalar_type(), "mixture_forward"), dim3(divideUp(tokens, 4)), 128,
           read(text), read(candidates), read(weights), read(index), write(output), static_cast<int>(text.size(0)),
           static_cast<int>(candidates.size(1)), static_cast<int>(tokens));
    return output;
  }
};

/**
 * text [row, hidden], candidates [word, candidate, hidden], weights [word, candidate] ->
 * [token, hidden].
 */
Tensor mixEmbeddings(const Tensor& text, const Tensor& candidates, const Tensor& weights, const Tensor& index) {
  checkInput(text, 128);
  TORCH_CHECK(text.dim() == 2 && candidates.dim() == 3 && candidates.size(2) == text.size(1),
              "expected text [row, hidden] and candidates [word, candidate, hidden]");
  checkLike(candidates, text, candidates.numel(), "table of candidates");
  TORCH_CHECK(weights.device() == text.device() && weights.scalar_type() == at::kFloat &&
                  weights.numel() == candidates.size(0) * candidates.size(1),
              "expected a float32 weight per candidate on ", text.device());
  checkIndices(index, text, at::kLong);
  Tensor t = toAligned(text), c = toAligned(candidates), w = toAligned(weights), i = index.contiguous();
  return needsGradient({t, c, w}) ? MixEmbeddings::apply(t, c, w, i) : MixEmbeddings::compute(t, c, w, i);
}

TORCH_LIBRARY_FRAGMENT(temper, library) {
  library.def("mix_embeddings(Tensor text, Tensor candidates, Tensor weights, Tensor index) -> Tensor", mixEmbeddings);
}

}  // namespace
}  // namespace temper
#endif
