// What the kernels with a LayerNorm share. One warp computes a row; a lane has every 32nd group of
// four columns.
constexpr int vectors = WIDTH / 128;  // groups per lane
constexpr int warps = 4;              // per block

/** The mean of a row and the inverse of its standard deviation. `total` is the sum of a lane's values. */
__device__ inline float2 computeMoments(Four (&values)[vectors], float total, float epsilon) {
  float mean = sumWarp(total) / WIDTH;
  float squares = 0;
#pragma unroll
  for (int v = 0; v < vectors; v++)
#pragma unroll
    for (int i = 0; i < 4; i++) squares += (values[v][i] - mean) * (values[v][i] - mean);
  return make_float2(mean, rsqrtf(sumWarp(squares) / WIDTH + epsilon));
}

/**
 * Adds three kinds of column sums over the warps of a block, and writes them as one row of partial
 * sums [block, 3, WIDTH], which column-sum adds in a fixed order.
 */
__device__ inline void writePartialSums(Four (&first)[vectors], Four (&second)[vectors], Four (&third)[vectors],
                                        float* partialSums) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  __shared__ float shared[warps][WIDTH];
#pragma unroll
  for (int kind = 0; kind < 3; kind++) {
#pragma unroll
    for (int v = 0; v < vectors; v++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        shared[warp][(v * 32 + lane) * 4 + i] = kind == 0 ? first[v][i] : kind == 1 ? second[v][i] : third[v][i];
    __syncthreads();
    for (int column = threadIdx.x; column < WIDTH; column += 32 * warps) {
      float total = 0;
#pragma unroll
      for (int w = 0; w < warps; w++) total += shared[w][column];
      partialSums[(static_cast<long long>(blockIdx.x) * 3 + kind) * WIDTH + column] = total;
    }
    __syncthreads();
  }
}
