// output = LayerNorm(sum), sum = residual + dropout(input + bias). One warp computes a row.
extern "C" __global__ void __launch_bounds__(32 * warps)
residual_norm_forward(const Scalar* __restrict__ input, const Scalar* __restrict__ bias,
                      const Scalar* __restrict__ residual, const Scalar* __restrict__ weight,
                      const Scalar* __restrict__ offset, Scalar* __restrict__ output, Scalar* __restrict__ sum,
                      float2* __restrict__ statistics, Dropout dropout, float epsilon, int rows) {
  int lane = threadIdx.x % 32;
  int row = blockIdx.x * warps + threadIdx.x / 32;
  if (row >= rows) return;
  uint64 seed = dropout.seed ? *dropout.seed : 0;
  long long start = static_cast<long long>(row) * WIDTH;
  Four values[vectors];
  float total = 0;
#pragma unroll
  for (int v = 0; v < vectors; v++) {
    int column = (v * 32 + lane) * 4;
    Four value = load(input, start + column);
    if (bias) {
      Four added = load(bias, column);
#pragma unroll
      for (int i = 0; i < 4; i++) value[i] += added[i];
    }
    if (dropout.seed) drop(dropout, seed, start + column, value);
    if (residual) {
      Four shortcut = load(residual, start + column);
#pragma unroll
      for (int i = 0; i < 4; i++) value[i] += shortcut[i];
    }
    // The backward pass reads the rounded sum, so the statistics describe the rounded sum too.
    if (sum) store(sum, start + column, value);
#pragma unroll
    for (int i = 0; i < 4; i++) total += value[i];
    values[v] = value;
  }
  float2 moments = computeMoments(values, total, epsilon);
#pragma unroll
  for (int v = 0; v < vectors; v++) {
    int column = (v * 32 + lane) * 4;
    Four scale = load(weight, column), shift = load(offset, column), value = values[v];
#pragma unroll
    for (int i = 0; i < 4; i++) value[i] = (value[i] - moments.x) * moments.y * scale[i] + shift[i];
    store(output, start + column, value);
  }
  if (statistics && lane == 0) statistics[row] = moments;
}

// Gradients. The output may have two gradients, which are added. A warp keeps the column sums of its rows in registers; each block writes one row of
// partial sums [block, 3, WIDTH] (weight, offset, bias), which column-sum adds in a fixed order.
// Without `hasSums`, the parameters need no gradient.
template <bool hasSums>
__device__ inline void computeGradients(const Scalar* __restrict__ gradient, const Scalar* __restrict__ secondGradient,
                                        const Scalar* __restrict__ sum, const float2* __restrict__ statistics,
                                        const Scalar* __restrict__ weight, Scalar* sumGradient, Scalar* inputGradient,
                                        float* partialSums, Dropout dropout, int rows) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint64 seed = dropout.seed ? *dropout.seed : 0;
  Four weightSums[vectors] = {}, offsetSums[vectors] = {}, biasSums[vectors] = {};
  for (int row = blockIdx.x * warps + warp; row < rows; row += gridDim.x * warps) {
    long long start = static_cast<long long>(row) * WIDTH;
    float2 moments = statistics[row];
    Four normalized[vectors], scaled[vectors];
    float first = 0, second = 0;
#pragma unroll
    for (int v = 0; v < vectors; v++) {
      int column = (v * 32 + lane) * 4;
      Four value = load(sum, start + column), outer = load(gradient, start + column), scale = load(weight, column);
      if (secondGradient) {
        Four added = load(secondGradient, start + column);
#pragma unroll
        for (int i = 0; i < 4; i++) outer[i] += added[i];
      }
#pragma unroll
      for (int i = 0; i < 4; i++) {
        normalized[v][i] = (value[i] - moments.x) * moments.y;
        scaled[v][i] = outer[i] * scale[i];
        if (hasSums) weightSums[v][i] += outer[i] * normalized[v][i];
        if (hasSums) offsetSums[v][i] += outer[i];
        first += scaled[v][i];
        second += scaled[v][i] * normalized[v][i];
      }
    }
    first = sumWarp(first) / WIDTH;
    second = sumWarp(second) / WIDTH;
#pragma unroll
    for (int v = 0; v < vectors; v++) {
      int column = (v * 32 + lane) * 4;
      Four value;
#pragma unroll
      for (int i = 0; i < 4; i++) value[i] = moments.y * (scaled[v][i] - first - normalized[v][i] * second);
      store(sumGradient, start + column, value);
      if (dropout.seed) {
        drop(dropout, seed, start + column, value);
        store(inputGradient, start + column, value);
      }
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (hasSums) biasSums[v][i] += value[i];
    }
  }
  if (hasSums) writePartialSums(weightSums, offsetSums, biasSums, partialSums);
}

extern "C" __global__ void __launch_bounds__(32 * warps)
residual_norm_backward(const Scalar* gradient, const Scalar* secondGradient, const Scalar* sum,
                       const float2* statistics, const Scalar* weight, Scalar* sumGradient, Scalar* inputGradient,
                       float* partialSums, Dropout dropout, int rows) {
  computeGradients<true>(gradient, secondGradient, sum, statistics, weight, sumGradient, inputGradient, partialSums,
                         dropout, rows);
}

extern "C" __global__ void __launch_bounds__(32 * warps)
residual_norm_backward_frozen(const Scalar* gradient, const Scalar* secondGradient, const Scalar* sum,
                              const float2* statistics, const Scalar* weight, Scalar* sumGradient,
                              Scalar* inputGradient, float* partialSums, Dropout dropout, int rows) {
  computeGradients<false>(gradient, secondGradient, sum, statistics, weight, sumGradient, inputGradient, partialSums,
                          dropout, rows);
}
