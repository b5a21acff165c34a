// Loops over floats on a CPU, with the widest instructions that it has.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

// The compiler makes one version of a function per instruction set. The processor chooses on load.
// Compilers before GCC 12 do not know the levels of x86-64. Loops marked with `omp simd` are
// vectorized, and their sums may be in any order.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && __GNUC__ >= 12
#define TEMPER_CLONES target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")
#elif defined(__x86_64__) && defined(__GLIBC__)
#define TEMPER_CLONES target_clones("avx512f", "avx2", "default")
#endif
#ifdef TEMPER_CLONES
#define TEMPER_VECTORIZED __attribute__((optimize("O3"), TEMPER_CLONES))
#else
#define TEMPER_VECTORIZED
#endif
// A version with the registers of AVX-512 only, for code that chooses the width of its vectors.
#if defined(__x86_64__) && defined(__GNUC__)
#define TEMPER_WIDE __attribute__((optimize("O3"), target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#endif
// An inlined function gets the instruction set of its caller.
#define TEMPER_INLINE inline __attribute__((always_inline))

namespace temper {

TEMPER_INLINE float toFloat(float value) { return value; }
TEMPER_INLINE float toFloat(int32_t value) { return static_cast<float>(value); }

/** bfloat16 has the upper bits of float32. */
TEMPER_INLINE float toFloat(uint16_t bits) { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }

TEMPER_INLINE void fromFloat(float value, float& target) { target = value; }

/** Rounds to the nearest bfloat16, to an even one in the middle. The value is finite or NaN. */
TEMPER_INLINE void fromFloat(float value, uint16_t& target) {
  uint32_t bits = __builtin_bit_cast(uint32_t, value);
  target = static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
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
 * coefficients), with an error of about 1e-7.
 */
TEMPER_INLINE float gelu(float value) {
  float x = value * 0.70710678f;
  x = x < -4.f ? -4.f : x;
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
 * between -4.2 and 4.2. The error is at most 8e-5.
 */
TEMPER_INLINE float approximateGelu(float value) {
  float x = value < -4.2f ? -4.2f : value;
  x = x > 4.2f ? 4.2f : x;
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
