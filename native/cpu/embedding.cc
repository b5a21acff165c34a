// The embedding layer of packed texts on a CPU: look-ups, sum and LayerNorm in one pass. With libtorch's operators,
// padding is embedded, too. gpu/embedding.cc is its sibling on a GPU.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <vector>

#include "binding/checks.h"
#include "cpu/vectorized.h"

namespace temper {
namespace {

using at::Tensor;

/** The rows of the tables that are added, and the parameters of LayerNorm. */
template <typename Element>
struct Sum {
  const Element *word, *position, *type, *weight, *offset;
};

template <typename Element>
TEMPER_INLINE void addAndNormalize(const Sum<Element>& sum, float epsilon, float* space, int64_t width, Element* row) {
  const Sum<Element> copy = sum;  // So that the compiler knows that the loop does not change it.
  float total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < width; i++) {
    space[i] = toFloat(copy.word[i]) + toFloat(copy.type[i]) + toFloat(copy.position[i]);
    total += space[i];
  }
  normalize(space, width, total, copy.weight, copy.offset, epsilon, row);
}

// The compiler cannot make versions of a template for the instruction sets.
TEMPER_VECTORIZED void embedRow(const Sum<float>& sum, float epsilon, float* space, int64_t width, float* row) {
  addAndNormalize(sum, epsilon, space, width, row);
}
TEMPER_VECTORIZED void embedRow(const Sum<uint16_t>& sum, float epsilon, float* space, int64_t width, uint16_t* row) {
  addAndNormalize(sum, epsilon, space, width, row);
}

/** A table, or one row of parameters. */
template <typename Element>
struct Table {
  Tensor tensor;
  const Element* data;
  int64_t rows, width;

  explicit Table(const Tensor& source)
      : tensor(source.contiguous()),
        data(static_cast<const Element*>(tensor.data_ptr())),
        rows(tensor.numel() / tensor.size(-1)),
        width(tensor.size(-1)) {}

  const Element* at(int64_t row) const {
    TORCH_CHECK_INDEX(row >= 0 && row < rows, "expected an index from 0 to ", rows - 1, ", received ", row);
    return data + row * width;
  }
};

template <typename Element>
Tensor embedTokens(const std::vector<Tensor>& tensors, const Tensor& ids, const OptionalTensor& typeIds,
                   const Tensor& indices, double epsilon, int64_t firstPosition, int64_t length) {
  const Table<Element> words(tensors[0]), positions(tensors[1]), types(tensors[2]), weight(tensors[3]),
      offset(tensors[4]);
  const Tensor types64 = typeIds ? typeIds->contiguous() : Tensor();
  const int64_t *id = ids.data_ptr<int64_t>(), *typeId = typeIds ? types64.data_ptr<int64_t>() : nullptr,
                *index = indices.data_ptr<int64_t>();
  Tensor result = at::empty({indices.numel(), words.width}, tensors[0].options());
  auto* rows = static_cast<Element*>(result.data_ptr());
  at::parallel_for(0, indices.numel(), 64, [&](int64_t begin, int64_t end) {
    std::vector<float> space(static_cast<size_t>(words.width));
    for (int64_t i = begin; i < end; i++) {
      const int64_t token = index[i];
      TORCH_CHECK_INDEX(token >= 0 && token < ids.numel(), "expected a token of the batch, received ", token);
      embedRow({words.at(id[token]), positions.at(firstPosition + token % length), types.at(typeId ? typeId[token] : 0),
                weight.data, offset.data},
               static_cast<float>(epsilon), space.data(), words.width, rows + i * words.width);
    }
  });
  return result;
}

/**
 * LayerNorm(word + type + position) of the tokens `indices` of a batch [text * length]. Tables and parameters have
 * the same width and dtype.
 */
Tensor cpuEmbeddingNorm(const Tensor& words, const Tensor& positions, const Tensor& types, const Tensor& weight,
                        const Tensor& offset, const Tensor& ids, const OptionalTensor& typeIds,
                        const Tensor& indices, double epsilon, int64_t firstPosition, int64_t length) {
  rejectGradients({words, positions, types, weight, offset});
  auto dtype = words.scalar_type();
  TORCH_CHECK(isFloatOrBf16(words), "expected float32 or bfloat16");
  TORCH_CHECK(words.dim() == 2 && words.size(1) > 0, "expected a table [word, width]");
  const std::vector<Tensor> tensors{words, positions, types, weight, offset};
  for (const Tensor& tensor : tensors)
    TORCH_CHECK(tensor.device().is_cpu() && tensor.scalar_type() == dtype && tensor.dim() > 0 &&
                    tensor.size(-1) == words.size(1),
                "expected tables of one width and dtype on the CPU");
  for (const Tensor& vector : {weight, offset})
    TORCH_CHECK(vector.dim() == 1, "expected the weight and the offset of LayerNorm");
  for (const OptionalTensor& integers : {OptionalTensor(ids), OptionalTensor(indices), typeIds})
    TORCH_CHECK(!integers || (integers->device().is_cpu() && integers->scalar_type() == at::kLong),
                "expected indices in int64 on the CPU");
  TORCH_CHECK(length > 0 && (!typeIds || typeIds->numel() == ids.numel()), "expected a type per token");
  auto embed = dtype == at::kFloat ? embedTokens<float> : embedTokens<uint16_t>;
  return embed(tensors, ids.contiguous(), typeIds, indices.contiguous(), epsilon, firstPosition, length);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(temper, library) {
  library.def(
      "cpu_embedding_norm(Tensor words, Tensor positions, Tensor types, Tensor weight, Tensor offset, Tensor ids, "
      "Tensor? type_ids, Tensor indices, float epsilon, int first_position, int length) -> Tensor",
      cpuEmbeddingNorm);
}

}  // namespace temper
