// output = dropout(LayerNorm(sum)), sum = word + position + type embedding. A token's position is
// its place in the text, or that of `positionIds`, which has one for every few tokens. One warp
// computes a token. `indices` are the places of the tokens in the padded batch [batch, length]; null means all
// places. Dropout counts the elements of the padded batch, so packing does not change its mask.
extern "C" __global__ void __launch_bounds__(32 * warps)
embedding_norm_forward(const Scalar* __restrict__ words, const Scalar* __restrict__ positions,
                       const Scalar* __restrict__ types, const long long* __restrict__ ids,
                       const long long* __restrict__ typeIds, const long long* __restrict__ indices,
                       const long long* __restrict__ positionIds, int tokensPerPosition,
                       const Scalar* __restrict__ weight, const Scalar* __restrict__ offset,
                       Scalar* __restrict__ output, Scalar* __restrict__ sum, float2* __restrict__ statistics,
                       Dropout dropout, float epsilon, int firstPosition, int length, int rows) {
  int lane = threadIdx.x % 32;
  int row = blockIdx.x * warps + threadIdx.x / 32;
  if (row >= rows) return;
  uint64 seed = dropout.seed ? *dropout.seed : 0;
  long long place = indices ? indices[row] : row;
  long long word = ids[place] * WIDTH;
  long long placeInText = positionIds ? positionIds[place / tokensPerPosition] : place % length;
  long long position = (firstPosition + placeInText) * WIDTH;
  long long type = typeIds ? typeIds[place] * WIDTH : 0;
  long long start = static_cast<long long>(row) * WIDTH;
  Four values[vectors];
  float total = 0;
#pragma unroll
  for (int v = 0; v < vectors; v++) {
    int column = (v * 32 + lane) * 4;
    Four value = load(words, word + column), second = load(types, type + column);
    Four third = load(positions, position + column);
#pragma unroll
    for (int i = 0; i < 4; i++) value[i] = value[i] + second[i] + third[i];
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
    if (dropout.seed) drop(dropout, seed, place * WIDTH + column, value);
    store(output, start + column, value);
  }
  if (statistics && lane == 0) statistics[row] = moments;
}

// The gradient of the sum. Each block writes one row of partial sums [block, 3, WIDTH] (weight,
// offset, and the gradient of the sum itself), which column-sum adds in a fixed order. `rowOfPlace`
// receives the row of each place, unless it is null.
extern "C" __global__ void __launch_bounds__(32 * warps)
embedding_norm_backward(const Scalar* __restrict__ gradient, const Scalar* __restrict__ sum,
                        const float2* __restrict__ statistics, const Scalar* __restrict__ weight,
                        const long long* __restrict__ indices, Scalar* __restrict__ sumGradient,
                        float* __restrict__ partialSums, int* __restrict__ rowOfPlace, Dropout dropout, int rows) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint64 seed = dropout.seed ? *dropout.seed : 0;
  Four weightSums[vectors] = {}, offsetSums[vectors] = {}, totals[vectors] = {};
  for (int row = blockIdx.x * warps + warp; row < rows; row += gridDim.x * warps) {
    long long place = indices ? indices[row] : row;
    if (rowOfPlace && lane == 0) rowOfPlace[place] = row;
    long long start = static_cast<long long>(row) * WIDTH;
    float2 moments = statistics[row];
    Four normalized[vectors], scaled[vectors];
    float first = 0, second = 0;
#pragma unroll
    for (int v = 0; v < vectors; v++) {
      int column = (v * 32 + lane) * 4;
      Four value = load(sum, start + column), outer = load(gradient, start + column), scale = load(weight, column);
      if (dropout.seed) drop(dropout, seed, place * WIDTH + column, outer);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        normalized[v][i] = (value[i] - moments.x) * moments.y;
        scaled[v][i] = outer[i] * scale[i];
        weightSums[v][i] += outer[i] * normalized[v][i];
        offsetSums[v][i] += outer[i];
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
#pragma unroll
      for (int i = 0; i < 4; i++) totals[v][i] += value[i];
    }
  }
  writePartialSums(weightSums, offsetSums, totals, partialSums);
}

// The gradient of the position table: row `firstPosition + position` is the sum over the texts. A
// thread adds four columns. Rows of other positions are zero.
extern "C" __global__ void __launch_bounds__(128)
sum_positions(const Scalar* sumGradient, const int* rowOfPlace, Scalar* output, int firstPosition, int length,
              int batchSize) {
  int column = (blockIdx.x * 128 + threadIdx.x) * 4;
  if (column >= WIDTH) return;
  int position = static_cast<int>(blockIdx.y) - firstPosition;
  Four total = {};
  if (position >= 0 && position < length)
#pragma unroll 4
    for (int text = 0; text < batchSize; text++) {
      int row = rowOfPlace[static_cast<long long>(text) * length + position];
      if (row < 0) continue;
      Four value = load(sumGradient, static_cast<long long>(row) * WIDTH + column);
#pragma unroll
      for (int i = 0; i < 4; i++) total[i] += value[i];
    }
  store(output, static_cast<long long>(blockIdx.y) * WIDTH + column, total);
}
