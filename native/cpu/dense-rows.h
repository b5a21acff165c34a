// What happens to a row before and after the product of a dense layer.
#pragma once
#include <limits>
#include <type_traits>

#include "cpu/vectorized.h"

namespace temper {
namespace {

/** How the levels of a row in 8 bits become numbers: scale * (level - zero). */
struct Quantization {
  float scale, zero;
};

/**
 * Quantizes a row to levels from 0 to `maxLevel`. Each row has a scale of its own, so the result of a
 * text does not depend on the other texts of its batch.
 */
template <typename Element>
TEMPER_INLINE Quantization quantize(const Element* row, uint8_t* levels, int64_t width, float maxLevel) {
  float low = 0, high = 0, poison = 0;
#pragma omp simd reduction(min : low) reduction(max : high) reduction(+ : poison)
  for (int64_t i = 0; i < width; i++) {
    float value = toFloat(row[i]);
    low = value < low ? value : low;
    high = value > high ? value : high;
    poison += value * 0;  // NaN for NaN and infinity, which comparisons may ignore
  }
  // A smaller range has an infinite inverse.
  if (poison != 0 || high - low < 1e-30f) {
    std::memset(levels, 0, static_cast<size_t>(width));
    return {poison != 0 ? std::numeric_limits<float>::quiet_NaN() : 0, 0};
  }
  float inverse = maxLevel / (high - low);
  // Truncation rounds down, because everything is positive: half is added to round to nearest.
  float zero = std::floor(-low * inverse + 0.5f), offset = zero + 0.5f;
#pragma omp simd
  for (int64_t i = 0; i < width; i++) {
    float level = toFloat(row[i]) * inverse + offset;
    levels[i] = static_cast<uint8_t>(static_cast<int32_t>(level < maxLevel ? level : maxLevel));
  }
  return {1 / inverse, zero};
}

// The compiler cannot make versions of a template for the instruction sets.
TEMPER_VECTORIZED Quantization quantizeRow(const float* row, uint8_t* levels, int64_t width, float maxLevel) {
  return quantize(row, levels, width, maxLevel);
}
TEMPER_VECTORIZED Quantization quantizeRow(const uint16_t* row, uint8_t* levels, int64_t width, float maxLevel) {
  return quantize(row, levels, width, maxLevel);
}

enum class Ending { none, gelu, norm };

/** What follows the product. */
struct Layer {
  Ending ending;
  const float* bias;
  /** In 8 bits: the sum of the weights of each column. */
  const float* sums;
  /** The parameters of LayerNorm. */
  const float *weight, *offset;
  float epsilon;
};

/** x Wᵀ + b of one row and column. */
template <bool isQuantized, typename Product>
TEMPER_INLINE float computeColumn(const Layer& layer, const Product* row, int64_t column, Quantization quantization) {
  float product = toFloat(row[column]);
  if constexpr (isQuantized) product = quantization.scale * (product - quantization.zero * layer.sums[column]);
  return product + layer.bias[column];
}

/** Turns a row of the product into a row of the result, which may be the same. `space` has the size of a row. */
template <bool isQuantized, typename Product, typename Element>
TEMPER_INLINE void finish(const Layer& layer, const Product* product, const Element* residual,
                          Quantization quantization, float* space, int64_t count, Element* row) {
  constexpr bool isExact = std::is_same_v<Product, float> && !isQuantized;
  const Layer copy = layer;  // So that the compiler knows that the loops do not change it.
  if (copy.ending == Ending::none) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) fromFloat(computeColumn<isQuantized>(copy, product, i, quantization), row[i]);
    return;
  }
  if (copy.ending == Ending::gelu) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
      float value = computeColumn<isQuantized>(copy, product, i, quantization);
      fromFloat(isExact ? gelu(value) : approximateGelu(value), row[i]);
    }
    return;
  }
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; i++) {
    space[i] = computeColumn<isQuantized>(copy, product, i, quantization) + toFloat(residual[i]);
    sum += space[i];
  }
  normalize(space, count, sum, copy.weight, copy.offset, copy.epsilon, row);
}

TEMPER_VECTORIZED void finishRow(const Layer& layer, const float* product, const float* residual, float* space,
                                 int64_t count, float* row) {
  finish<false>(layer, product, residual, {}, space, count, row);
}
TEMPER_VECTORIZED void finishRow(const Layer& layer, const uint16_t* product, const uint16_t* residual, float* space,
                                 int64_t count, uint16_t* row) {
  finish<false>(layer, product, residual, {}, space, count, row);
}
TEMPER_VECTORIZED void finishQuantizedRow(const Layer& layer, const float* product, const float* residual,
                                          Quantization quantization, float* space, int64_t count, float* row) {
  finish<true>(layer, product, residual, quantization, space, count, row);
}
TEMPER_VECTORIZED void finishQuantizedRow(const Layer& layer, const float* product, const uint16_t* residual,
                                          Quantization quantization, float* space, int64_t count, uint16_t* row) {
  finish<true>(layer, product, residual, quantization, space, count, row);
}

}  // namespace
}  // namespace temper
