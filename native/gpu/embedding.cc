// temper::embedding_norm: an embedding layer on a GPU (gpu/kernels/embedding-norm.cu). cpu/embedding.cc is the
// sibling on a CPU.
#ifdef TEMPER_CUDA
#include <torch/library.h>

#include "gpu/launch.h"

namespace temper {
namespace {

/** What the kernels of an embedding layer read besides the tables. */
struct EmbeddedTokens {
  Tensor ids, typeIds, indices, positionIds, seed;
  double p, epsilon;
  int firstPosition, length;

  int tokensPerPosition() const {
    return positionIds.defined() ? static_cast<int>(ids.numel() / positionIds.numel()) : 1;
  }
  int64_t count() const { return indices.defined() ? indices.numel() : ids.numel(); }
};

EmbeddedTokens makeTokens(const Tensor& ids, const OptionalTensor& typeIds, const OptionalTensor& indices,
                          const OptionalTensor& positionIds, const OptionalTensor& seed, double p, double epsilon,
                          int64_t firstPosition, int64_t length) {
  OptionalTensor flatPositions = positionIds ? OptionalTensor(positionIds->contiguous()) : std::nullopt;
  return {ids,
          typeIds.value_or(Tensor()),
          indices.value_or(Tensor()),
          flatPositions.value_or(Tensor()),
          seed.value_or(Tensor()),
          p,
          epsilon,
          static_cast<int>(firstPosition),
          static_cast<int>(length)};
}

Normalized embedTokens(const Tensor& words, const Tensor& positions, const Tensor& types, const Tensor& weight,
                       const Tensor& offset, const EmbeddedTokens& tokens, bool keepSum) {
  int64_t width = words.size(-1), rows = tokens.count();
  Normalized result;
  result.output = at::empty({rows, width}, words.options());
  if (keepSum) {
    result.sum = at::empty_like(result.output);
    result.statistics = at::empty({rows, 2}, words.options().dtype(at::kFloat));
  }
  launch(findKernel("embedding-norm", width, words.scalar_type(), "embedding_norm_forward"), dim3(divideUp(rows, 4)),
         128, read(words), read(positions), read(types), read(tokens.ids), read(tokens.typeIds), read(tokens.indices),
         read(tokens.positionIds), tokens.tokensPerPosition(), read(weight), read(offset), write(result.output),
         write(result.sum), write(result.statistics), makeDropout(tokens.seed, tokens.p),
         static_cast<float>(tokens.epsilon), tokens.firstPosition, tokens.length, static_cast<int>(rows));
  return result;
}

struct EmbeddingNorm : torch::autograd::Function<EmbeddingNorm> {
  static Tensor forward(AutogradContext* context, const Tensor& words, const Tensor& positions, const Tensor& types,
                        const Tensor& weight, const Tensor& offset, const Tensor& ids, const OptionalTensor& typeIds,
                        const OptionalTensor& indices, const OptionalTensor& positionIds, const OptionalTensor& seed,
                        double p, double epsilon, int64_t firstPosition, int64_t length) {
    auto tokens = makeTokens(ids, typeIds, indices, positionIds, seed, p, epsilon, firstPosition, length);
    auto result = embedTokens(words, positions, types, weight, offset, tokens, true);
    context->save_for_backward(
        {result.sum, result.statistics, weight, ids, tokens.typeIds, tokens.indices, tokens.positionIds, tokens.seed});
    context->saved_data["p"] = p;
    context->saved_data["firstPosition"] = firstPosition;
    context->saved_data["length"] = length;
    context->saved_data["vocabulary"] = words.size(0);
    context->saved_data["positions"] = positions.size(0);
    context->saved_data["types"] = types.size(0);
    return result.output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    rejectSecondDerivative();
    auto saved = context->get_saved_variables();
    const Tensor &sum = saved[0], &statistics = saved[1], &weight = saved[2], &ids = saved[3], &typeIds = saved[4],
                 &indices = saved[5], &positionIds = saved[6], &seed = saved[7];
    auto getInteger = [&](const char* name) { return context->saved_data[name].toInt(); };
    Tensor gradient = toAligned(gradients[0]), sumGradient = at::empty_like(sum);
    int64_t width = sum.size(-1), rows = sum.size(0), length = getInteger("length");
    unsigned blocks = std::min<unsigned>(divideUp(rows, 4), 264);
    Tensor partial = at::empty({blocks, 3 * width}, statistics.options());
    Tensor rowOfPlace;
    if (!positionIds.defined()) rowOfPlace = at::full({ids.numel()}, -1, ids.options().dtype(at::kInt));
    launch(findKernel("embedding-norm", width, sum.scalar_type(), "embedding_norm_backward"), dim3(blocks), 128,
           read(gradient), read(sum), read(statistics), read(weight), read(indices), write(sumGradient), write(partial),
           write(rowOfPlace), makeDropout(seed, context->saved_data["p"].toDouble()), static_cast<int>(rows));
    auto sums = sumBlocks(partial, width, sum.scalar_type()).split(width);

    Tensor positions;
    if (positionIds.defined()) {
      Tensor sums = sumGradient.view({positionIds.numel(), -1, width}).sum(1);
      positions = at::embedding_dense_backward(sums, positionIds.flatten() + getInteger("firstPosition"),
                                               getInteger("positions"), -1, false);
    } else {
      positions = at::empty({getInteger("positions"), width}, sum.options());
      launch(findKernel("embedding-norm", width, sum.scalar_type(), "sum_positions"),
             dim3(divideUp(width, 512), static_cast<unsigned>(positions.size(0))), 128, read(sumGradient),
             read(rowOfPlace), write(positions), static_cast<int>(getInteger("firstPosition")),
             static_cast<int>(length), static_cast<int>(ids.numel() / length));
    }
    auto select = [&](const Tensor& values) { return indices.defined() ? values.index_select(0, indices) : values; };
    Tensor words = at::embedding_dense_backward(sumGradient, select(ids), getInteger("vocabulary"), -1, false);
    Tensor types;
    if (typeIds.defined()) {
      Tensor kinds = at::arange(getInteger("types"), ids.options()).unsqueeze(1);
      types = kinds.eq(select(typeIds).unsqueeze(0)).to(sum.scalar_type()).mm(sumGradient);
    } else {
      types = at::zeros({getInteger("types"), width}, sum.options());
      types.select(0, 0).copy_(sums[2]);
    }
    return {words,    positions, types,    sums[0],  sums[1],  Tensor(), Tensor(),
            Tensor(), Tensor(),  Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

Tensor embeddingNorm(const Tensor& words, const Tensor& positions, const Tensor& types, const Tensor& weight,
                     const Tensor& offset, const Tensor& ids, const OptionalTensor& typeIds,
                     const OptionalTensor& indices, const OptionalTensor& positionIds, const OptionalTensor& seed,
                     double p, double epsilon, int64_t firstPosition, int64_t length) {
  checkInput(words, 128);
  checkDropout(seed, p);
  int64_t width = words.size(-1);
  for (const Tensor& table : {words, positions, types}) {
    TORCH_CHECK(table.dim() == 2 && table.size(1) == width, "expected tables [row, ", width, "]");
    checkLike(table, words, table.numel(), "table");
  }
  checkLike(weight, words, width, "weight");
  checkLike(offset, words, width, "offset");
  for (const OptionalTensor& integers : {OptionalTensor(ids), typeIds, indices, positionIds})
    checkIndices(integers, words, at::kLong);
  TORCH_CHECK(length > 0 && ids.numel() % length == 0, "expected texts of ", length, " tokens");
  TORCH_CHECK(!typeIds || typeIds->numel() == ids.numel(), "expected a type per token");
  TORCH_CHECK(!positionIds || (!indices && positionIds->numel() > 0 && ids.numel() % positionIds->numel() == 0),
              "expected positions for all tokens, and no indices");
  TORCH_CHECK(types.size(0) > 0 && firstPosition >= 0 && firstPosition + length <= positions.size(0),
              "expected at most ", positions.size(0) - firstPosition, " positions, received ", length);
  Tensor w = toAligned(words), q = toAligned(positions), t = toAligned(types), scale = toAligned(weight),
         shift = toAligned(offset), flatIds = ids.contiguous();
  OptionalTensor flatTypes = toAligned(typeIds), flatIndices = toAligned(indices);
  if (needsGradient({w, q, t, scale, shift}))
    return EmbeddingNorm::apply(w, q, t, scale, shift, flatIds, flatTypes, flatIndices, positionIds, seed, p, epsilon,
                                firstPosition, length);
  auto tokens = makeTokens(flatIds, flatTypes, flatIndices, positionIds, seed, p, epsilon, firstPosition, length);
  return embedTokens(w, q, t, scale, shift, tokens, false).output;
}

TORCH_LIBRARY_FRAGMENT(temper, library) {
  library.def(
      "embedding_norm(Tensor words, Tensor positions, Tensor types, Tensor weight, Tensor offset, Tensor ids, "
      "Tensor? type_ids, Tensor? indices, Tensor? position_ids, Tensor? seed, float p, float epsilon, "
      "int first_position, int length) -> Tensor",
      embeddingNorm);
}

}  // namespace
}  // namespace temper
#endif
