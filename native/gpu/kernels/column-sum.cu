// Sums over rows in a fixed order: first within blocks of rows, then over the blocks.
constexpr int threads = 128;

/** partialSums[block, column] = the sum of a block of rows. */
extern "C" __global__ void __launch_bounds__(threads)
sum_row_blocks(const Scalar* __restrict__ input, float* __restrict__ partialSums, int rows, int rowsPerBlock) {
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

/** output[column] = the sum over `blocks` rows of partial sums. A block has 32 columns and 32 warps. */
extern "C" __global__ void __launch_bounds__(1024)
sum_blocks(const float* __restrict__ partialSums, Scalar* __restrict__ output, int blocks, int columns) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = blockIdx.x * 32 + lane;
  float total = 0;
  if (column < columns)
#pragma unroll 8
    for (int block = warp; block < blocks; block += 32)
      total += partialSums[static_cast<long long>(block) * columns + column];
  __shared__ float shared[32][33];
  shared[warp][lane] = total;
  __syncthreads();
  // Now each warp has a column.
  total = sumWarp(shared[lane][warp]);
  column = blockIdx.x * 32 + warp;
  if (lane == 0 && column < columns) output[column] = fromFloat(total);
}
