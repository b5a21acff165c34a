// Sums over rows in a fixed order: first within blocks of rows, then over the blocks.
constexpr int threads = 128;

/** partialSums[block, column] = the sum of a block of rows. */
extern "C" __global__ void __launch_bounds__(threads)
sum_row_blocks(const Scalar* input, float* partialSums, int rows, int rowsPerBlock) {
  int column = (blockIdx.x * threads + threadIdx.x) * 4;
  if (column >= WIDTH) return;
  Four sums = {};
  int end = min(rows, static_cast<int>(blockIdx.y + 1) * rowsPerBlock);
#pragma unroll 8
  for (int row = blockIdx.y * rowsPerBlock; row < end; row++) {
    Four value = load(input, static_cast<long long>(row) * WIDTH + column);
#pragma unroll
    for (int i = 0; i < 4; i++) sums[i] += value[i];
  }
#pragma unroll
  for (int i = 0; i < 4; i++) partialSums[static_cast<long long>(blockIdx.y) * WIDTH + column + i] = sums[i];
}

/** output[column] = the sum over `blocks` rows of partial sums. A block has 32 columns and 8 warps. */
extern "C" __global__ void __launch_bounds__(256)
sum_blocks(const float* partialSums, Scalar* output, int blocks, int columns) {
  int column = blockIdx.x * 32 + threadIdx.x % 32, warp = threadIdx.x / 32;
  float total = 0;
  if (column < columns)
#pragma unroll 4
    for (int block = warp; block < blocks; block += 8) total += partialSums[static_cast<long long>(block) * columns + column];
  __shared__ float shared[8][32];
  shared[warp][threadIdx.x % 32] = total;
  __syncthreads();
  if (warp > 0 || column >= columns) return;
  for (int other = 1; other < 8; other++) total += shared[other][threadIdx.x];
  output[column] = fromFloat(total);
}
