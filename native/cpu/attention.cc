// Attention within texts that follow each other without padding, on a CPU. Attacks score texts of
// many lengths: with padding, their batches would be small or mostly padding. gpu/attention.cc is its sibling on a GPU.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "binding/checks.h"
#include "cpu/vectorized.h"

namespace temper {
namespace {

using at::Tensor;

int64_t roundUp(int64_t count, int64_t multiple) { return (count + multiple - 1) / multiple * multiple; }

/** Products are computed in blocks of this many rows and of two vectors, whose sums stay in registers. */
constexpr int64_t blockRows = 4;
/** The numbers of a register of AVX2 and of AVX-512. */
constexpr int64_t lanes = 8, maxLanes = 16;

template <int64_t count>
struct VectorOf {
  typedef float Type __attribute__((vector_size(4 * count)));
  typedef int32_t Indices __attribute__((vector_size(4 * count)));
};
typedef VectorOf<lanes>::Type Vector;
typedef VectorOf<lanes>::Indices Indices;

/** One head of one text in float32. Rows and columns are rounded up to full blocks. */
struct Head {
  int64_t keys, width, keyColumns, widthColumns;
  std::vector<float> query;   // [blockRows, width], scaled
  std::vector<float> key;     // [width, keyColumns]
  std::vector<float> value;   // [keys, widthColumns]
  std::vector<float> scores;  // [blockRows, keyColumns]
  std::vector<float> output;  // [blockRows, widthColumns]

  explicit Head(int64_t width) : keys(0), width(width), keyColumns(0), widthColumns(roundUp(width, 2 * maxLanes)) {
    query.resize(blockRows * width);
    output.resize(blockRows * widthColumns);
  }

  void resize(int64_t newKeys) {
    if (newKeys == keys) return;
    keys = newKeys, keyColumns = roundUp(keys, 2 * maxLanes);
    key.resize(width * keyColumns);
    value.resize(keys * widthColumns);
    scores.resize(blockRows * keyColumns);
  }
};

/** The rows of one head of one text in a tensor [token, head, width]. */
template <typename Element>
struct Rows {
  Element* data;
  int64_t stride;

  Rows(const Tensor& tensor, int64_t token, int64_t head)
      : data(static_cast<Element*>(tensor.data_ptr()) + token * tensor.stride(0) + head * tensor.stride(1)),
        stride(tensor.stride(0)) {}
};

/** What attention of one head of one text reads and writes. */
template <typename Element>
struct HeadRows {
  int64_t queries;
  Rows<Element> query, key, value, result;
};

/** target = left right for a block of rows of `left`. `right` and `target` have `columns` columns. */
template <int64_t count>
TEMPER_INLINE void multiplyBlock(const float* left, int64_t leftStride, const float* right, float* target,
                                 int64_t inner, int64_t columns) {
  using Wide = typename VectorOf<count>::Type;
  for (int64_t j = 0; j < columns; j += 2 * count) {
    Wide low[blockRows] = {}, high[blockRows] = {};
    for (int64_t k = 0; k < inner; k++) {
      Wide first, second;
      std::memcpy(&first, right + k * columns + j, sizeof first);
      std::memcpy(&second, right + k * columns + j + count, sizeof second);
#pragma GCC unroll 4
      for (int64_t i = 0; i < blockRows; i++) {
        low[i] += left[i * leftStride + k] * first;
        high[i] += left[i * leftStride + k] * second;
      }
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < blockRows; i++) {
      std::memcpy(target + i * columns + j, &low[i], sizeof low[i]);
      std::memcpy(target + i * columns + j + count, &high[i], sizeof high[i]);
    }
  }
}

/** Takes elements of two vectors: those of the second one follow those of the first. */
template <typename Wide, typename Mask>
TEMPER_INLINE void shuffle(const Wide& first, const Wide& second, const Mask& mask, Wide& result) {
#ifdef __clang__
  constexpr int32_t count = sizeof(Wide) / sizeof(float);
  for (int32_t k = 0; k < count; k++) result[k] = mask[k] < count ? first[mask[k]] : second[mask[k] - count];
#else
  result = __builtin_shuffle(first, second, mask);
#endif
}

/** Adds `next` to each number of `total`, or keeps the larger one. */
template <bool isSum, typename Wide>
TEMPER_INLINE void combine(Wide& total, const Wide& next) {
  total = isSum ? total + next : total > next ? total : next;
}

/** Combines the numbers of a vector: first those at a distance of `half`, then nearer ones. */
template <bool isSum, int32_t half, typename Wide>
TEMPER_INLINE void combineAll(Wide& total) {
  constexpr int32_t count = sizeof(Wide) / sizeof(float);
  typename VectorOf<count>::Indices rotated;
  for (int32_t k = 0; k < count; k++) rotated[k] = (k + half) % count;
  Wide next;
  shuffle(total, total, rotated, next);
  combine<isSum>(total, next);
  if constexpr (half > 1) combineAll<isSum, half / 2>(total);
}

/** The sum or the largest number of a row, which has a multiple of `count` numbers. */
template <bool isSum, int64_t count>
TEMPER_INLINE float reduceRow(const float* row, int64_t columns) {
  typename VectorOf<count>::Type total, next;
  std::memcpy(&total, row, sizeof total);
  for (int64_t j = count; j < columns; j += count) {
    std::memcpy(&next, row + j, sizeof next);
    combine<isSum>(total, next);
  }
  combineAll<isSum, count / 2>(total);
  return total[0];
}

/**
 * Computes e^(score - largest score) of a row of scores, about 0 at padding. Returns the factor that makes them
 * sum to 1.
 */
template <int64_t count>
TEMPER_INLINE float exponentiateRow(float* row, int64_t keys, int64_t columns) {
  // The columns after the keys are those of an earlier text. They must not be the largest score, however small the
  // scores of the keys are. If all of those are -inf, the result is NaN, as that of softmax.
  std::fill(row + keys, row + columns, -std::numeric_limits<float>::infinity());
  const float largest = reduceRow<false, count>(row, columns);
#pragma omp simd
  for (int64_t j = 0; j < columns; j++) {
    float difference = row[j] - largest;
    row[j] = exponential(difference < -87 ? -87 : difference);
  }
  return 1 / reduceRow<true, count>(row, columns);
}

TEMPER_INLINE void load(const float* source, Vector& target) { std::memcpy(&target, source, sizeof target); }

TEMPER_INLINE void load(const uint16_t* source, Vector& target) {
  uint16_t bits __attribute__((vector_size(2 * lanes)));
  std::memcpy(&bits, source, sizeof bits);
  target = reinterpret_cast<Vector>(__builtin_convertvector(bits, Indices) << 16);
}

/** Exchanges the elements off the diagonal of blocks of `size` x `size`, in pairs of rows. */
template <int32_t size>
TEMPER_INLINE void exchange(Vector* rows) {
  Indices lowMask, highMask;
  for (int32_t k = 0; k < lanes; k++) {
    lowMask[k] = k & size ? lanes + k - size : k;
    highMask[k] = k & size ? lanes + k : k + size;
  }
#pragma GCC unroll 8
  for (int32_t i = 0; i < lanes; i++) {
    if (i & size) continue;
    Vector first = rows[i], second = rows[i + size];
    shuffle(first, second, lowMask, rows[i]);
    shuffle(first, second, highMask, rows[i + size]);
  }
}

/** Copies the keys as columns. */
template <typename Element>
TEMPER_INLINE void copyKeys(Head& head, const Rows<Element>& key) {
  const int64_t columns = head.keyColumns;
  int64_t j = 0;
  for (; head.width % lanes == 0 && j + lanes <= head.keys; j += lanes)
    for (int64_t d = 0; d < head.width; d += lanes) {
      Vector block[lanes];
#pragma GCC unroll 8
      for (int64_t i = 0; i < lanes; i++) load(key.data + (j + i) * key.stride + d, block[i]);
      exchange<1>(block), exchange<2>(block), exchange<4>(block);
#pragma GCC unroll 8
      for (int64_t i = 0; i < lanes; i++)
        std::memcpy(head.key.data() + (d + i) * columns + j, &block[i], sizeof block[i]);
    }
  for (; j < head.keys; j++)
    for (int64_t d = 0; d < head.width; d++) head.key[d * columns + j] = toFloat(key.data[j * key.stride + d]);
}

template <typename Element>
TEMPER_INLINE void copyRow(const Element* source, int64_t width, float scale, float* target) {
#pragma omp simd
  for (int64_t d = 0; d < width; d++) target[d] = toFloat(source[d]) * scale;
}

/** Requests the row of the next head: the hardware does not foresee it. */
template <typename Element>
TEMPER_INLINE void prefetchNext(const Element* row, int64_t width) {
  constexpr int64_t line = 64 / sizeof(Element);
  for (int64_t d = 0; d < width; d += line) __builtin_prefetch(row + width + d);
}

/** softmax(Q Kᵀ / √width) V of one head of one text. */
template <int64_t count, typename Element>
TEMPER_INLINE void attend(Head& head, const HeadRows<Element>& rows) {
  const auto& [queries, query, key, value, result] = rows;
  const int64_t width = head.width;
  const float scale = 1 / std::sqrt(static_cast<float>(width));
  copyKeys(head, key);
  for (int64_t j = 0; j < head.keys; j++) prefetchNext(key.data + j * key.stride, width);
  for (int64_t j = 0; j < head.keys; j++) prefetchNext(value.data + j * value.stride, width);
  for (int64_t j = 0; j < head.keys; j++)
    copyRow(value.data + j * value.stride, width, 1, head.value.data() + j * head.widthColumns);
  float *scores = head.scores.data(), *output = head.output.data();
  for (int64_t i = 0; i < queries; i += blockRows) {
    const int64_t filled = std::min(blockRows, queries - i);
    for (int64_t r = 0; r < filled; r++) prefetchNext(query.data + (i + r) * query.stride, width);
    for (int64_t r = 0; r < filled; r++)
      copyRow(query.data + (i + r) * query.stride, width, scale, head.query.data() + r * width);
    multiplyBlock<count>(head.query.data(), width, head.key.data(), scores, width, head.keyColumns);
    float factors[blockRows];
    for (int64_t r = 0; r < blockRows; r++)
      factors[r] = exponentiateRow<count>(scores + r * head.keyColumns, head.keys, head.keyColumns);
    multiplyBlock<count>(scores, head.keyColumns, head.value.data(), output, head.keys, head.widthColumns);
    for (int64_t r = 0; r < filled; r++) {
      const float *source = output + r * head.widthColumns, factor = factors[r];
      Element* target = result.data + (i + r) * result.stride;
#pragma omp simd
      for (int64_t d = 0; d < width; d++) fromFloat(source[d] * factor, target[d]);
    }
  }
}

// The compiler cannot make versions of a template for the instruction sets.
TEMPER_NARROW void attendHead(Head& head, const HeadRows<float>& rows) { attend<lanes>(head, rows); }
TEMPER_NARROW void attendHead(Head& head, const HeadRows<uint16_t>& rows) { attend<lanes>(head, rows); }
TEMPER_WIDE void attendWide(Head& head, const HeadRows<float>& rows) { attend<maxLanes>(head, rows); }
TEMPER_WIDE void attendWide(Head& head, const HeadRows<uint16_t>& rows) { attend<maxLanes>(head, rows); }

/** The attention of a head with the widest vectors of this processor. */
template <typename Element>
auto chooseAttention() {
  using Function = void (*)(Head&, const HeadRows<Element>&);
  return hasWideVectors() ? static_cast<Function>(attendWide) : static_cast<Function>(attendHead);
}

template <typename Element>
void attendTexts(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& queryStarts,
                 const Tensor& keyStarts, const Tensor& result) {
  const int32_t *queryStart = queryStarts.data_ptr<int32_t>(), *keyStart = keyStarts.data_ptr<int32_t>();
  const int64_t texts = queryStarts.numel() - 1, tokens = key.size(0), heads = query.size(1);
  static const auto attendOne = chooseAttention<Element>();
  // A thread gets consecutive texts with about as many tokens as the others. If there are few texts,
  // it gets single heads of them.
  const int64_t parts = texts >= 4 * at::get_num_threads() ? 1 : heads;
  at::parallel_for(0, tokens * parts, 32, [&](int64_t begin, int64_t end) {
    Head head(query.size(2));
    for (int64_t part = begin / tokens; part * tokens < end; part++) {
      const int64_t first = begin - part * tokens, last = end - part * tokens;
      for (int64_t i = std::lower_bound(keyStart, keyStart + texts, first) - keyStart; i < texts && keyStart[i] < last;
           i++) {
        head.resize(keyStart[i + 1] - keyStart[i]);
        for (int64_t h = part * heads / parts; h < (part + 1) * heads / parts; h++)
          attendOne(head, {queryStart[i + 1] - queryStart[i], Rows<Element>(query, queryStart[i], h),
                           Rows<Element>(key, keyStart[i], h), Rows<Element>(value, keyStart[i], h),
                           Rows<Element>(result, queryStart[i], h)});
      }
    }
  });
}

/** Returns true if the starts of texts rise from 0 to the number of tokens. */
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
  rejectGradients({query, key, value});
  auto dtype = query.scalar_type();
  TORCH_CHECK(isFloatOrBf16(query), "expected float32 or bfloat16");
  TORCH_CHECK(query.dim() == 3 && query.size(2) > 0, "expected projections [token, head, width] on the CPU");
  for (const Tensor& tensor : {query, key, value})
    TORCH_CHECK(tensor.device().is_cpu() && tensor.scalar_type() == dtype && tensor.dim() == 3 &&
                    tensor.size(1) == query.size(1) && tensor.size(2) == query.size(2) && tensor.stride(2) == 1,
                "expected projections [token, head, width] on the CPU");
  TORCH_CHECK(key.size(0) == value.size(0) && queryStarts.numel() == keyStarts.numel() &&
                  areStarts(queryStarts, query.size(0)) && areStarts(keyStarts, key.size(0)),
              "expected the starts of texts from 0 to the number of tokens");
  const int32_t *queryStart = queryStarts.data_ptr<int32_t>(), *keyStart = keyStarts.data_ptr<int32_t>();
  for (int64_t i = 1; i < queryStarts.numel(); i++)
    TORCH_CHECK(queryStart[i] == queryStart[i - 1] || keyStart[i] > keyStart[i - 1], "expected keys for every query");
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
