// Attention within texts that follow each other without padding, on a CPU. Attacks score texts of
// many lengths: with padding, their batches would be small or mostly padding.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

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

/** The memory of one head of one text, in float32. Rows and columns are rounded up to full blocks. */
struct Head {
  int64_t queries, keys, width, keyColumns, widthColumns;
  std::vector<float> query;   // [queries, width], scaled
  std::vector<float> key;     // [width, keyColumns]
  std::vector<float> value;   // [keys, widthColumns]
  std::vector<float> scores;  // [blockRows, keyColumns]
  std::vector<float> output;  // [blockRows, widthColumns]

  void resize(int64_t newQueries, int64_t newKeys, int64_t newWidth) {
    queries = newQueries, keys = newKeys, width = newWidth;
    keyColumns = roundUp(keys, blockColumns), widthColumns = roundUp(width, blockColumns);
    query.resize(roundUp(queries, blockRows) * width);
    key.resize(width * keyColumns);
    value.resize(keys * widthColumns);
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

/** softmax of the first columns of a row. */
TEMPER_INLINE void applySoftmax(float* row, int64_t count) {
  float largest = row[0], sum = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t j = 0; j < count; j++) largest = row[j] > largest ? row[j] : largest;
#pragma omp simd
  for (int64_t j = 0; j < count; j++) row[j] = row[j] - largest < -87 ? -87 : row[j] - largest;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < count; j++) {
    row[j] = exponential(row[j]);
    sum += row[j];
  }
  float inverse = 1 / sum;
#pragma omp simd
  for (int64_t j = 0; j < count; j++) row[j] *= inverse;
}

/** The rows of one head of one text in a tensor [token, head, width]. */
template <typename Element>
struct Rows {
  Element* data;
  int64_t stride;

  Rows(const Tensor& tensor, int64_t token, int64_t head)
      : data(static_cast<Element*>(tensor.data_ptr()) + token * tensor.stride(0) + head * tensor.stride(1)),
        stride(tensor.stride(0)) {}
};

TEMPER_INLINE float toFloat(float value) { return value; }

/** bfloat16 has the upper bits of float32. */
TEMPER_INLINE float toFloat(uint16_t bits) { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }

TEMPER_INLINE void fromFloat(float value, float& target) { target = value; }

/** Rounds to the nearest bfloat16, to an even one in the middle. The value is finite or NaN. */
TEMPER_INLINE void fromFloat(float value, uint16_t& target) {
  uint32_t bits = __builtin_bit_cast(uint32_t, value);
  target = static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/** softmax(Q Kᵀ / √width) V of one head of one text. */
template <typename Element>
TEMPER_INLINE void attendRows(Head& head, const Rows<Element>& query, const Rows<Element>& key,
                              const Rows<Element>& value, const Rows<Element>& result) {
  int64_t width = head.width;
  float scale = 1 / std::sqrt(static_cast<float>(width));
  for (int64_t i = 0; i < head.queries; i++) {
    float* target = head.query.data() + i * width;
#pragma omp simd
    for (int64_t d = 0; d < width; d++) target[d] = toFloat(query.data[i * query.stride + d]) * scale;
  }
  for (int64_t j = 0; j < head.keys; j++) {
    float *keyTarget = head.key.data() + j, *valueTarget = head.value.data() + j * head.widthColumns;
    for (int64_t d = 0; d < width; d++) keyTarget[d * head.keyColumns] = toFloat(key.data[j * key.stride + d]);
#pragma omp simd
    for (int64_t d = 0; d < width; d++) valueTarget[d] = toFloat(value.data[j * value.stride + d]);
  }
  float *scores = head.scores.data(), *output = head.output.data();
  for (int64_t i = 0; i < head.queries; i += blockRows) {
    multiplyBlock(head.query.data() + i * width, width, head.key.data(), scores, width, head.keyColumns);
    for (int64_t r = 0; r < blockRows; r++) applySoftmax(scores + r * head.keyColumns, head.keys);
    multiplyBlock(scores, head.keyColumns, head.value.data(), output, head.keys, head.widthColumns);
    for (int64_t r = 0; r < blockRows && i + r < head.queries; r++) {
      const float* source = output + r * head.widthColumns;
      Element* target = result.data + (i + r) * result.stride;
#pragma omp simd
      for (int64_t d = 0; d < width; d++) fromFloat(source[d], target[d]);
    }
  }
}

TEMPER_VECTORIZED void attendHead(Head& head, const Rows<float>& query, const Rows<float>& key,
                                  const Rows<float>& value, const Rows<float>& result) {
  attendRows(head, query, key, value, result);
}

TEMPER_VECTORIZED void attendHead(Head& head, const Rows<uint16_t>& query, const Rows<uint16_t>& key,
                                  const Rows<uint16_t>& value, const Rows<uint16_t>& result) {
  attendRows(head, query, key, value, result);
}

template <typename Element>
void attendTexts(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& queryStarts,
                 const Tensor& keyStarts, const Tensor& result) {
  const int32_t *queryStart = queryStarts.data_ptr<int32_t>(), *keyStart = keyStarts.data_ptr<int32_t>();
  int64_t texts = queryStarts.numel() - 1, heads = query.size(1);
  at::parallel_for(0, texts * heads, 4, [&](int64_t begin, int64_t end) {
    Head head;
    for (int64_t task = begin; task < end; task++) {
      int64_t text = task / heads, i = task % heads, firstQuery = queryStart[text], firstKey = keyStart[text];
      head.resize(queryStart[text + 1] - firstQuery, keyStart[text + 1] - firstKey, query.size(2));
      attendHead(head, Rows<Element>(query, firstQuery, i), Rows<Element>(key, firstKey, i),
                 Rows<Element>(value, firstKey, i), Rows<Element>(result, firstQuery, i));
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
  library.def(
      "cpu_attention(Tensor query, Tensor key, Tensor value, Tensor query_starts, Tensor key_starts) -> Tensor",
      cpuAttention);
}

}  // namespace temper
