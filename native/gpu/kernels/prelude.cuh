// Shared by all kernels. The loader defines SCALAR_BF16 as 1 or 0 and WIDTH as the number of
// columns. No header is included, so that NVRTC needs no CUDA toolkit.
typedef unsigned int uint32;
typedef unsigned long long uint64;

__device__ inline float bf16ToFloat(unsigned short value) { return __uint_as_float(static_cast<uint32>(value) << 16); }
__device__ inline unsigned short floatToBf16(float value) {
#if __CUDA_ARCH__ >= 800
  unsigned short result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
#else
  // Older GPUs lack the instruction: to the nearest, to an even one in the middle.
  uint32 bits = __float_as_uint(value);
  return value == value ? static_cast<unsigned short>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) : 0x7fc0;
#endif
}

#if SCALAR_BF16
typedef unsigned short Scalar;
__device__ inline float toFloat(Scalar value) { return bf16ToFloat(value); }
__device__ inline Scalar fromFloat(float value) { return floatToBf16(value); }
#else
typedef float Scalar;
__device__ inline float toFloat(Scalar value) { return value; }
__device__ inline Scalar fromFloat(float value) { return value; }
#endif

/** Four neighboring elements, which one instruction loads or stores. */
struct alignas(4 * sizeof(Scalar)) Packed {
  Scalar elements[4];
};

struct Four {
  float elements[4];
  __device__ float& operator[](int i) { return elements[i]; }
};

__device__ inline Four load(const Scalar* source, long long index) {
  Packed packed = *reinterpret_cast<const Packed*>(source + index);
  Four result;
#pragma unroll
  for (int i = 0; i < 4; i++) result[i] = toFloat(packed.elements[i]);
  return result;
}

/** Rounds in place, so that later computations see the values in memory. */
__device__ inline void store(Scalar* target, long long index, Four& values) {
  Packed packed;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    packed.elements[i] = fromFloat(values[i]);
    values[i] = toFloat(packed.elements[i]);
  }
  *reinterpret_cast<Packed*>(target + index) = packed;
}

__device__ inline float sumWarp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

/** The i-th word of a counter-based stream (splitmix64), as on the CPU (native/dropout.cc). */
__device__ inline uint64 randomWord(uint64 seed, uint64 i) {
  uint64 z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/** Dropout of a tensor: element i is zeroed if its 32 random bits are below `limit`. */
struct Dropout {
  const uint64* seed;  // null: no dropout
  uint32 limit;
  float scale;
};

/** Applies dropout to the elements index … index + 3. The index must be a multiple of 4. */
__device__ inline void drop(const Dropout& dropout, uint64 seed, long long index, Four& values) {
#pragma unroll
  for (int pair = 0; pair < 2; pair++) {
    uint64 bits = randomWord(seed, static_cast<uint64>(index) / 2 + pair);
    float& first = values[2 * pair];
    float& second = values[2 * pair + 1];
    first = static_cast<uint32>(bits) >= dropout.limit ? first * dropout.scale : 0.0f;
    second = static_cast<uint32>(bits >> 32) >= dropout.limit ? second * dropout.scale : 0.0f;
  }
}
