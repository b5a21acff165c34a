// Loops over floats on a CPU, with the widest instructions that it has.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

// All that depends on x86 is in this block; other processors get one portable version of each loop. The compiler makes
// one version of a function per instruction set, and the processor chooses on load. Compilers before GCC 12 do not know
// the levels of x86-64. Loops marked with `omp simd` are vectorized, and their sums may be in any order.
// - TEMPER_VECTORIZED: for loops whose vectors the compiler chooses.
// - TEMPER_NARROW: at most AVX2, for code with vectors of 8 numbers that has a wide version.
// - TEMPER_WIDE: AVX-512 only, for that wide version. Call it only if `hasWideVectors`.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && __GNUC__ >= 12
#define TEMPER_VECTORIZED \
  __attribute__((optimize("O3"), target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define TEMPER_NARROW __attribute__((optimize("O3"), target_clones("arch=x86-64-v3", "default")))
#elif defined(__x86_64__) && defined(__GLIBC__)
#define TEMPER_VECTORIZED __attribute__((optimize("O3"), target_clones("avx512f", "avx2", "default")))
#define TEMPER_NARROW __attribute__((optimize("O3"), target_clones("avx2", "default")))
#else
#define TEMPER_VECTORIZED
#define TEMPER_NARROW
#endif
#if defined(__x86_64__) && defined(__GNUC__)
#define TEMPER_WIDE __attribute__((optimize("O3"), target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
inline bool hasWideVectors() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#else
#define TEMPER_WIDE
inline bool hasWideVectors() { return false; }
#endif
// An inlined function gets the instruction set of its caller.
#define TEMPER_INLINE inline __attribute__((always_inline))

namespace temper {

TEMPER_INLINE float toFloat(float value) { return value; }
TEMPER_INLINE float toFloat(int32_t value) { return static_cast<float>(value); }

/** bfloat16 has the upper bits of float32. */
TEMPER_INLINE float toFloat(uint16_t bits) { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }

TEMPER_INLINE void fromFloat(float value, float& target) { target = value; }

/** Rounds to the nearest bfloat16, to an even one in the middle. */
TEMPER_INLINE void fromFloat(float value, uint16_t& target) {
  uint32_t bits = __builtin_bit_cast(uint32_t, value);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  // Rounding would turn a NaN with all bits set into zero.
  target = static_cast<uint16_t>(value == value ? rounded : 0x7fc0);
}

/** exp(x) for x between -87 and 0, with a relative error of about 2e-7. */
TEMPER_INLINE float exponential(float x) {
  // x = k ln 2 + r. Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
  constexpr float shift = 12582912;
  float shifted = x * 1.44269504f + shift;
  float k = shifted - shift;
  float r = x - k * 0.693359375f + k * 2.12194440e-4f;
  float p = 1.f / 720;
  p = p * r + 1.f / 120;
  p = p * r + 1.f / 24;
  p = p * r + 1.f / 6;
  p = p * r + 0.5f;
  p = p * r * r + r + 1;
  // 2^k as a factor: a sum of bits would turn some NaN into numbers.
  return p * __builtin_bit_cast(float, (__builtin_bit_cast(uint32_t, shifted) << 23) + 0x3f800000u);
}

/**
 * GELU: x (1 + erf(x / √2)) / 2. erf is a quotient of polynomials between -4 and 4 (Eigen's
 * coefficients), with an error of about 1e-7. Below, the result stays what it is at -4, which is about 0.
 */
TEMPER_INLINE float gelu(float value) {
  value = value < -5.6568542f ? -5.6568542f : value;
  float x = value * 0.70710678f;
  x = x > 4.f ? 4.f : x;
  float y = x * x;
  float numerator = y * -2.72614225801306e-10f + 2.77068142495902e-08f;
  numerator = numerator * y - 2.10102402082508e-06f;
  numerator = numerator * y - 5.69250639462346e-05f;
  numerator = numerator * y - 7.34990630326855e-04f;
  numerator = numerator * y - 2.95459980854025e-03f;
  numerator = numerator * y - 1.60960333262415e-02f;
  float denominator = y * -1.45660718464996e-05f - 2.13374055278905e-04f;
  denominator = denominator * y - 1.68282697438203e-03f;
  denominator = denominator * y - 7.37332916720468e-03f;
  denominator = denominator * y - 1.42647390514189e-02f;
  return 0.5f * value * (1 + x * numerator / denominator);
}

/**
 * GELU for low precision, without a division, in half the time: x (1/2 + x P(x²)) with a polynomial P that was fitted
 * between -4.2 and 4.2. The error is at most 8e-5 for negative numbers and up to 30, and then at most 3e-6 of the result.
 */
TEMPER_INLINE float approximateGelu(float value) {
  value = value < -4.2f ? -4.2f : value;
  float x = value > 4.2f ? 4.2f : value;
  float y = x * x;
  float p = y * -9.135429251e-10f + 8.018849460e-08f;
  p = p * y - 3.058432365e-06f;
  p = p * y + 6.716947730e-05f;
  p = p * y - 9.527210138e-04f;
  p = p * y + 9.306302515e-03f;
  p = p * y - 6.554295762e-02f;
  p = p * y + 3.984748229e-01f;
  return value * (x * p + 0.5f);
}

/** LayerNorm of a row whose numbers have the given sum. */
template <typename Parameter, typename Element>
TEMPER_INLINE void normalize(const float* values, int64_t count, float sum, const Parameter* weight,
                             const Parameter* offset, float epsilon, Element* row) {
  const float mean = sum / static_cast<float>(count);
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < count; i++) squares += (values[i] - mean) * (values[i] - mean);
  const float factor = 1 / std::sqrt(squares / static_cast<float>(count) + epsilon);
#pragma omp simd
  for (int64_t i = 0; i < count; i++)
    fromFloat((values[i] - mean) * factor * toFloat(weight[i]) + toFloat(offset[i]), row[i]);
}

}  // namespace temper
