// output = activation(input + bias): GELU exactly, or its tanh approximation (TANH is 1).
#if !TANH
/**
 * Phi(x), the share of the normal distribution below x, and exp(-x^2 / 2). In bf16 by a polynomial
 * with an error of 1.5e-7 (Abramowitz and Stegun 7.1.26), which needs a third of erff's time.
 */
__device__ inline float2 normal(float x) {
#if SCALAR_BF16
  float density = __expf(-0.5f * x * x);
  float t = __fdividef(1.0f, 1 + 0.231641888f * fabsf(x));
  float sum = 0.71070687f + t * (-0.726576014f + t * 0.530702715f);
  float tail = density * t * (0.127414796f + t * (-0.142248368f + t * sum));
  return make_float2(x > 0 ? 1 - tail : tail, density);
#else
  return make_float2(0.5f * (1 + erff(x * 0.7071067811865476f)), expf(-0.5f * x * x));
#endif
}
#endif

__device__ inline float activate(float x) {
#if TANH
  float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1 + tanhf(inner));
#elif SCALAR_BF16
  // x / (1 + exp(-2u)) with a polynomial u(x): half of the instructions of x Phi(x). The error is at
  // most 3e-5, and 3e-4 of the result for |x| < 3, far less than that of rounding to bf16.
  float square = fminf(x * x, 31.36f);
  float slope = 0.000817988876f + square * (3.38256237e-05f + square * -1.18458973e-06f);
  slope = -2.30102025f + square * (-0.106581026f + square * slope);
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * slope));
  return __fdividef(x, 1 + power);
#else
  return x * normal(x).x;
#endif
}

__device__ inline float derivative(float x) {
#if TANH
  float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  float tangent = tanhf(inner);
  return 0.5f * (1 + tangent) +
         0.5f * x * (1 - tangent * tangent) * 0.7978845608028654f * (1 + 3 * 0.044715f * x * x);
#else
  float2 found = normal(x);
  return found.x + x * 0.3989422804014327f * found.y;
#endif
}

constexpr int threads = 128;

constexpr int groupsPerThread = 4;

// A thread computes several groups of four elements. It loads all of them first, because memory is
// slow to answer.
extern "C" __global__ void __launch_bounds__(threads)
activation_forward(const Scalar* __restrict__ input, const Scalar* __restrict__ bias, Scalar* __restrict__ output,
                   long long groups) {
  long long first = blockIdx.x * static_cast<long long>(threads * groupsPerThread) + threadIdx.x;
  Four values[groupsPerThread];
#pragma unroll
  for (int i = 0; i < groupsPerThread; i++)
    if (first + i * threads < groups) values[i] = load(input, 4 * (first + i * threads));
#pragma unroll
  for (int i = 0; i < groupsPerThread; i++) {
    long long group = first + i * threads;
    if (group >= groups) return;
    Four added = load(bias, static_cast<int>(group % (WIDTH / 4)) * 4);
#pragma unroll
    for (int j = 0; j < 4; j++) values[i][j] = activate(values[i][j] + added[j]);
    store(output, 4 * group, values[i]);
  }
}

// A thread computes four columns of some rows. Partial sums [block, WIDTH] are the bias gradient,
// if it is needed.
extern "C" __global__ void __launch_bounds__(threads)
activation_backward(const Scalar* __restrict__ gradient, const Scalar* __restrict__ input,
                    const Scalar* __restrict__ bias, Scalar* __restrict__ inputGradient,
                    float* __restrict__ partialSums, int rows, int rowsPerBlock) {
  int column = (blockIdx.x * threads + threadIdx.x) * 4;
  if (column >= WIDTH) return;
  Four added = load(bias, column), sums = {};
  int end = min(rows, static_cast<int>(blockIdx.y + 1) * rowsPerBlock);
#pragma unroll 4
  for (int row = blockIdx.y * rowsPerBlock; row < end; row++) {
    long long index = static_cast<long long>(row) * WIDTH + column;
    Four value = load(input, index), outer = load(gradient, index);
#pragma unroll
    for (int i = 0; i < 4; i++) value[i] = outer[i] * derivative(value[i] + added[i]);
    store(inputGradient, index, value);
#pragma unroll
    for (int i = 0; i < 4; i++) sums[i] += value[i];
  }
  if (!partialSums) return;
#pragma unroll
  for (int i = 0; i < 4; i++) partialSums[static_cast<long long>(blockIdx.y) * WIDTH + column + i] = sums[i];
}
