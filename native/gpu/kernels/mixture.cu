// Embeddings of texts whose modifiable words are mixtures of candidates (ASCC). Token t has row
// index[t] of the rows of the text, followed by the mixtures sum_c weights[word, c] *
// candidates[word, c]. One warp computes a token; a lane has every 32nd group of four columns.
constexpr int vectors = WIDTH / 128;  // groups per lane
constexpr int warps = 4;              // per block

extern "C" __global__ void __launch_bounds__(32 * warps)
mixture_forward(const Scalar* __restrict__ text, const Scalar* __restrict__ candidates,
                const float* __restrict__ weights, const long long* __restrict__ index, Scalar* __restrict__ output,
                int textRows, int candidatesPerWord, int tokens) {
  int lane = threadIdx.x % 32, token = blockIdx.x * warps + threadIdx.x / 32;
  if (token >= tokens) return;
  long long row = index[token], word = row - textRows;
  Four values[vectors] = {};
  if (word < 0) {
#pragma unroll
    for (int v = 0; v < vectors; v++) values[v] = load(text, row * WIDTH + (v * 32 + lane) * 4);
  } else
#pragma unroll 2
    for (int c = 0; c < candidatesPerWord; c++) {
      long long candidate = word * candidatesPerWord + c;
      float weight = weights[candidate];
#pragma unroll
      for (int v = 0; v < vectors; v++) {
        Four value = load(candidates, candidate * WIDTH + (v * 32 + lane) * 4);
#pragma unroll
        for (int i = 0; i < 4; i++) values[v][i] += weight * value[i];
      }
    }
#pragma unroll
  for (int v = 0; v < vectors; v++)
    store(output, static_cast<long long>(token) * WIDTH + (v * 32 + lane) * 4, values[v]);
}

// A row has at most one token. Gradients that are null are not needed; rows without a token stay as
// they are.
extern "C" __global__ void __launch_bounds__(32 * warps)
mixture_backward(const Scalar* __restrict__ gradient, const Scalar* __restrict__ candidates,
                 const float* __restrict__ weights, const long long* __restrict__ index,
                 Scalar* __restrict__ textGradient, Scalar* __restrict__ candidateGradient,
                 float* __restrict__ weightGradient, int textRows, int candidatesPerWord, int tokens) {
  int lane = threadIdx.x % 32, token = blockIdx.x * warps + threadIdx.x / 32;
  if (token >= tokens) return;
  long long row = index[token], word = row - textRows;
  Four outer[vectors];
#pragma unroll
  for (int v = 0; v < vectors; v++)
    outer[v] = load(gradient, static_cast<long long>(token) * WIDTH + (v * 32 + lane) * 4);
  if (word < 0) {
    if (!textGradient) return;
#pragma unroll
    for (int v = 0; v < vectors; v++) store(textGradient, row * WIDTH + (v * 32 + lane) * 4, outer[v]);
    return;
  }
#pragma unroll 2
  for (int c = 0; c < candidatesPerWord; c++) {
    long long candidate = word * candidatesPerWord + c;
    if (weightGradient) {
      float dot = 0;
#pragma unroll
      for (int v = 0; v < vectors; v++) {
        Four value = load(candidates, candidate * WIDTH + (v * 32 + lane) * 4);
#pragma unroll
        for (int i = 0; i < 4; i++) dot += outer[v][i] * value[i];
      }
      dot = sumWarp(dot);
      if (lane == 0) weightGradient[candidate] = dot;
    }
    if (candidateGradient) {
      float weight = weights[candidate];
#pragma unroll
      for (int v = 0; v < vectors; v++) {
        Four value;
#pragma unroll
        for (int i = 0; i < 4; i++) value[i] = weight * outer[v][i];
        store(candidateGradient, candidate * WIDTH + (v * 32 + lane) * 4, value);
      }
    }
  }
}
