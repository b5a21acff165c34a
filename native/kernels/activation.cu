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

extern "C" __global__ void __launch_bounds__(threads)
activation_forward(const Scalar* input, const Scalar* bias, Scalar* output, long long groups) {
  for (long long group = blockIdx.x * static_cast<long long>(threads) + threadIdx.x; group < groups;
       group += static_cast<long long>(gridDim.x) * threads) {
    int column = static_cast<int>(group % (WIDTH / 4)) * 4;
    Four value = load(input, 4 * group), added = load(bias, column);
#pragma unroll
    for (int i = 0; i < 4; i++) value[i] = activate(value[i] + added[i]);
    store(output, 4 * group, value);
  }
}

// A thread computes four columns of some rows. Partial sums [block, WIDTH] are the bias gradient.
extern "C" __global__ void __launch_bounds__(threads)
activation_backward(const Scalar* gradient, const Scalar* input, const Scalar* bias, Scalar* inputGradient,
                    float* partialSums, int rows, int rowsPerBlock) {
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
#pragma unroll
  for (int i = 0; i < 4; i++) partialSums[static_cast<long long>(blockIdx.y) * WIDTH + column + i] = sums[i];
}
