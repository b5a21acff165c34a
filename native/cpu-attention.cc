// Attention within texts that follow each other without padding, on a CPU. Attacks score texts of
// many lengths: with padding, their batches would be small or mostly padding.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "vectorized.h"

namespace temper {
namespace {

using at::Tensor;

/** Products are computed in blocks of this many rows and columns, whose sums stay in registers. */
constexpr int64_t blockRows = 4;
constexpr int64_t blockColumns = 16;
/** Half a block of columns: a register of AVX2. */
typedef float Vector __attribute__((vector_size(32)));
constexpr int64_t lanes = 8;

int64_t roundUp(int64_t count, int64_t multiple) { return (count + multiple - 1) / multiple * multiple; }

/**
 * The projections of some heads of one text in float32, head by head. Rows and columns are rounded up
 * to full blocks.
 */
struct Text {
  int64_t heads, queries, keys, width, queryRows, keyColumns, widthColumns;
  std::vector<float> query;   // [heads, queryRows, width], scaled
  std::vector<float> key;     // [heads, width, keyColumns]
  std::vector<float> value;   // [heads, keys, widthColumns]
  std::vector<float> scores;  // [blockRows, keyColumns]
  std::vector<float> output;  // [blockRows, widthColumns]

  Text(int64_t heads, int64_t width) : heads(heads), width(width), widthColumns(roundUp(width, blockColumns)) {}

  void resize(int64_t newQueries, int64_t newKeys) {
    queries = newQueries, keys = newKeys;
    queryRows = roundUp(queries, blockRows), keyColumns = roundUp(keys, blockColumns);
    query.resize(heads * queryRows * width);
    key.resize(heads * width * keyColumns);
    value.resize(heads * keys * widthColumns);
    scores.resize(blockRows * keyColumns);
    output.resize(blockRows * widthColumns);
  }
};

/** target = left right for a block of rows of `left`. `right` and `target` have `columns` columns. */
TEMPER_INLINE void multiplyBlock(const float* left, int64_t leftStride, const float* right, float* target,
                                 int64_t inner, int64_t columns) {
  for (int64_t j = 0; j < columns; j += blockColumns) {
    Vector low[blockRows] = {}, high[blockRows] = {};
    for (int64_t k = 0; k < inner; k++) {
      Vector first, second;
      std::memcpy(&first, right + k * columns + j, sizeof first);
      std::memcpy(&second, right + k * columns + j + lanes, sizeof second);
#pragma GCC unroll 4
      for (int64_t i = 0; i < blockRows; i++) {
        low[i] += left[i * leftStride + k] * first;
        high[i] += left[i * leftStride + k] * second;
      }
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < blockRows; i++) {
      std::memcpy(target + i * columns + j, &low[i], sizeof low[i]);
      std::memcpy(target + i * columns + j + lanes, &high[i], sizeof high[i]);
    }
  }
}

/**
 * Computes e^(score - largest score) of the first `count` scores of a row, and about 0 for the rest
 * of its columns. Returns the factor that makes them sum to 1.
 */
TEMPER_INLINE float exponentiateRow(float* row, int64_t count, int64_t columns) {
  for (int64_t j = count; j < columns; j++) row[j] = -1e30f;
  float largest = row[0], sum = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t j = 0; j < columns; j++) largest = row[j] > largest ? row[j] : largest;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < columns; j++) {
    float difference = row[j] - largest;
    row[j] = exponential(difference < -87 ? -87 : difference);
    sum += row[j];
  }
  return 1 / sum;
}

/** The rows of one text in a tensor [token, head, width], from some head on. */
template <typename Element>
struct Rows {
  Element* data;
  int64_t stride, headStride;

  Rows(const Tensor& tensor, int64_t token, int64_t head)
      : data(static_cast<Element*>(tensor.data_ptr()) + token * tensor.stride(0) + head * tensor.stride(1)),
        stride(tensor.stride(0)),
        headStride(tensor.stride(1)) {}
};

/** Copies the projections, token by token: the heads of a token follow each other in memory. */
template <typename Element>
TEMPER_INLINE void copyProjections(Text& text, const Rows<Element>& query, const Rows<Element>& key,
                                   const Rows<Element>& value) {
  const int64_t width = text.width, keyColumns = text.keyColumns;
  const float scale = 1 / std::sqrt(static_cast<float>(width));
  for (int64_t i = 0; i < text.queries; i++)
    for (int64_t h = 0; h < text.heads; h++) {
      const Element* source = query.data + i * query.stride + h * query.headStride;
      float* target = text.query.data() + (h * text.queryRows + i) * width;
#pragma omp simd
      for (int64_t d = 0; d < width; d++) target[d] = toFloat(source[d]) * scale;
    }
  for (int64_t j = 0; j < text.keys; j++)
    for (int64_t h = 0; h < text.heads; h++) {
      const Element* source = key.data + j * key.stride + h * key.headStride;
      float* target = text.key.data() + h * width * keyColumns + j;
      for (int64_t d = 0; d < width; d++) target[d * keyColumns] = toFloat(source[d]);
    }
  for (int64_t j = 0; j < text.keys; j++)
    for (int64_t h = 0; h < text.heads; h++) {
      const Element* source = value.data + j * value.stride + h * value.headStride;
      float* target = text.value.data() + (h * text.keys + j) * text.widthColumns;
#pragma omp simd
      for (int64_t d = 0; d < width; d++) target[d] = toFloat(source[d]);
    }
}

/** softmax(Q Kᵀ / √width) V of some heads of one text. */
template <typename Element>
TEMPER_INLINE void attend(Text& text, const Rows<Element>& query, const Rows<Element>& key, const Rows<Element>& value,
                          const Rows<Element>& result) {
  copyProjections(text, query, key, value);
  const int64_t width = text.width, keyColumns = text.keyColumns;
  float *scores = text.scores.data(), *output = text.output.data();
  for (int64_t h = 0; h < text.heads; h++) {
    const float *queries = text.query.data() + h * text.queryRows * width,
                *keys = text.key.data() + h * width * keyColumns,
                *values = text.value.data() + h * text.keys * text.widthColumns;
    for (int64_t i = 0; i < text.queries; i += blockRows) {
      multiplyBlock(queries + i * width, width, keys, scores, width, keyColumns);
      float factors[blockRows];
      for (int64_t r = 0; r < blockRows; r++)
        factors[r] = exponentiateRow(scores + r * keyColumns, text.keys, keyColumns);
      multiplyBlock(scores, keyColumns, values, output, text.keys, text.widthColumns);
      for (int64_t r = 0; r < blockRows && i + r < text.queries; r++) {
        const float* source = output + r * text.widthColumns;
        Element* target = result.data + (i + r) * result.stride + h * result.headStride;
#pragma omp simd
        for (int64_t d = 0; d < width; d++) fromFloat(source[d] * factors[r], target[d]);
      }
    }
  }
}

// The compiler cannot make versions of a template for the instruction sets.
TEMPER_VECTORIZED void attendText(Text& text, const Rows<float>& query, const Rows<float>& key,
                                  const Rows<float>& value, const Rows<float>& result) {
  attend(text, query, key, value, result);
}

TEMPER_VECTORIZED void attendText(Text& text, const Rows<uint16_t>& query, const Rows<uint16_t>& key,
                                  const Rows<uint16_t>& value, const Rows<uint16_t>& result) {
  attend(text, query, key, value, result);
}

template <typename Element>
void attendTexts(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& queryStarts,
                 const Tensor& keyStarts, const Tensor& result) {
  const int32_t *queryStart = queryStarts.data_ptr<int32_t>(), *keyStart = keyStarts.data_ptr<int32_t>();
  const int64_t texts = queryStarts.numel() - 1, tokens = key.size(0), heads = query.size(1);
  // A thread gets consecutive texts with about as many tokens as the others. If there are few texts,
  // it gets single heads of them.
  const int64_t parts = texts >= 4 * at::get_num_threads() ? 1 : heads;
  at::parallel_for(0, tokens * parts, 32, [&](int64_t begin, int64_t end) {
    Text text(heads / parts, query.size(2));
    for (int64_t part = begin / tokens; part * tokens < end; part++) {
      const int64_t first = begin - part * tokens, last = end - part * tokens, head = part * text.heads;
      for (int64_t i = std::lower_bound(keyStart, keyStart + texts, first) - keyStart; i < texts && keyStart[i] < last;
           i++) {
        text.resize(queryStart[i + 1] - queryStart[i], keyStart[i + 1] - keyStart[i]);
        attendText(text, Rows<Element>(query, queryStart[i], head), Rows<Element>(key, keyStart[i], head),
                   Rows<Element>(value, keyStart[i], head), Rows<Element>(result, queryStart[i], head));
      }
    }
  });
}

/** Whether the starts of texts rise from 0 to the number of tokens. */
bool areStarts(const Tensor& starts, int64_t tokens) {
  if (!starts.device().is_cpu() || starts.scalar_type() != at::kInt || !starts.is_contiguous() || starts.numel() < 1)
    return false;
  const int32_t* start = starts.data_ptr<int32_t>();
  for (int64_t i = 1; i < starts.numel(); i++)
    if (start[i] < start[i - 1]) return false;
  return start[0] == 0 && start[starts.numel() - 1] == tokens;
}

/** Attention of queries [query, head, width] with keys and values [key, head, width] of the same text. */
Tensor cpuAttention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& queryStarts,
                    const Tensor& keyStarts) {
  auto dtype = query.scalar_type();
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kBFloat16, "expected float32 or bfloat16");
  for (const Tensor& tensor : {query, key, value})
    TORCH_CHECK(tensor.device().is_cpu() && tensor.scalar_type() == dtype && tensor.dim() == 3 &&
                    tensor.size(1) == query.size(1) && tensor.size(2) == query.size(2) && tensor.stride(2) == 1,
                "expected projections [token, head, width] on the CPU");
  TORCH_CHECK(key.size(0) == value.size(0) && queryStarts.numel() == keyStarts.numel() &&
                  areStarts(queryStarts, query.size(0)) && areStarts(keyStarts, key.size(0)),
              "expected the starts of texts from 0 to the number of tokens");
  Tensor result = at::empty(query.sizes(), query.options());
  auto attend = dtype == at::kFloat ? attendTexts<float> : attendTexts<uint16_t>;
  attend(query, key, value, queryStarts, keyStarts, result);
  return result;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(temper, library) {
  library.def("cpu_attention(Tensor query, Tensor key, Tensor value, Tensor query_starts, Tensor key_starts) -> Tensor",
              cpuAttention);
}

}  // namespace temper
