// Attention within short texts: softmax(Q K^T * scale) V. One block computes one head of one text,
// so that scores never leave the chip. One warp computes 16 rows with tensor cores. KEYS is the
// largest length, WIDTH the width of a head. Everything is bfloat16, sums are float32.
//
// `projections` is [token, 3, head, WIDTH]: query, key, value. Text i has the tokens from starts[i]
// to starts[i + 1]; null means that every text has `length` tokens. If `firstOnly` is 0, every
// token has an output. Otherwise only the first token of a text has one, in row outputStarts[i] if
// that differs from outputStarts[i + 1]; null means row i. `outputs` is the number of rows of the
// output, and `logSums` is [head, output].
typedef unsigned short Bf16;

constexpr int groups = WIDTH / 8;          // groups of 8 columns (16 bytes) per row
constexpr int depth = WIDTH / 16;          // 16 columns each
constexpr int stride = WIDTH + 8;          // of a row in shared memory, so that 8 rows are in different banks
constexpr int scoreStride = KEYS + 8;      // the same for a row of scores
constexpr int tiles = KEYS / 16;           // 16 rows each
constexpr int threads = 32 * tiles;
constexpr int copies = KEYS * groups / threads;  // groups of a matrix [KEYS, WIDTH] per thread
constexpr int blocksPerProcessor = 512 / threads;  // at least, which limits registers
constexpr float log2OfE = 1.4426950408889634f;

/** Starts to copy 16 bytes to shared memory, or zeros. */
__device__ inline void startCopy(Bf16* target, const Bf16* source, bool exists) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"(static_cast<uint32>(__cvta_generic_to_shared(target))), "l"(source), "r"(exists ? 16 : 0)
               : "memory");
}

/** Waits for all copies of a block. */
__device__ inline void finishCopies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
}

/** Four 8 x 8 blocks of a 16 x 16 tile, as one instruction loads them. */
struct Tile {
  uint32 blocks[4];
};

/**
 * Loads a tile whose first element is `source`. Block 1 is below block 0, and blocks 2 and 3 are to
 * the right of these.
 */
template <bool transposed>
__device__ inline Tile loadTile(const Bf16* source, int rowStride) {
  int lane = threadIdx.x % 32;
  uint32 address = static_cast<uint32>(__cvta_generic_to_shared(source + lane % 16 * rowStride + lane / 16 * 8));
  Tile tile;
  uint32(&b)[4] = tile.blocks;
  if (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                 : "r"(address));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                 : "r"(address));
  return tile;
}

/**
 * sum += left * right for 16 x 16 by 16 x 8. A thread has elements (r, c), (r, c + 1), (r + 8, c)
 * and (r + 8, c + 1) of the sum: r = lane / 4, c = lane % 4 * 2.
 */
__device__ inline void multiply(float (&sum)[4], const Tile& left, uint32 right0, uint32 right1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left.blocks[0]), "r"(left.blocks[1]), "r"(left.blocks[2]), "r"(left.blocks[3]), "r"(right0), "r"(right1));
}

/** sums (16 x 16) += left * rows^T. */
__device__ inline void multiplyByRows(float (&sums)[2][4], const Tile& left, const Tile& rows) {
  multiply(sums[0], left, rows.blocks[0], rows.blocks[2]);
  multiply(sums[1], left, rows.blocks[1], rows.blocks[3]);
}

/** sums (16 x WIDTH) += left * 16 rows in shared memory. */
__device__ inline void multiplyAndAdd(float (&sums)[groups][4], const Tile& left, const Bf16* rows) {
  Tile right[depth];
#pragma unroll
  for (int i = 0; i < depth; i++) right[i] = loadTile<true>(rows + 16 * i, stride);
#pragma unroll
  for (int i = 0; i < depth; i++) {
    multiply(sums[2 * i], left, right[i].blocks[0], right[i].blocks[1]);
    multiply(sums[2 * i + 1], left, right[i].blocks[2], right[i].blocks[3]);
  }
}

__device__ inline uint32 pack(float low, float high) {
  uint32 result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

/** Rounds sums (16 x 16) to the left side of a product. */
__device__ inline Tile toTile(const float (&sums)[2][4]) {
  return {pack(sums[0][0], sums[0][1]), pack(sums[0][2], sums[0][3]), pack(sums[1][0], sums[1][1]),
          pack(sums[1][2], sums[1][3])};
}

/** Four neighboring lanes exchange words: word i of lane j becomes word j of lane i. */
__device__ inline uint4 transposeQuad(uint4 words) {
  bool isOdd = threadIdx.x % 2, isHigh = threadIdx.x % 4 / 2;
  uint32 first = __shfl_xor_sync(0xffffffffu, isOdd ? words.x : words.y, 1);
  uint32 second = __shfl_xor_sync(0xffffffffu, isOdd ? words.z : words.w, 1);
  words = isOdd ? make_uint4(first, words.y, second, words.w) : make_uint4(words.x, first, words.z, second);
  first = __shfl_xor_sync(0xffffffffu, isHigh ? words.x : words.z, 2);
  second = __shfl_xor_sync(0xffffffffu, isHigh ? words.y : words.w, 2);
  return isHigh ? make_uint4(first, second, words.z, words.w) : make_uint4(words.x, words.y, first, second);
}

/** Loads rows first ... first + 15 as the left sides of products. Rows from `end` on are 0. */
__device__ inline void loadRows(Tile (&target)[depth], const Bf16* source, int rowStride, int first, int end) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    int row = first + lane / 4 + 8 * half;
    // A lane loads the 16 bytes of a group and then gets its word of four groups.
#pragma unroll
    for (int four = 0; four < depth / 2; four++) {
      uint4 words = {};
      if (row < end)
        words = *reinterpret_cast<const uint4*>(source + static_cast<long long>(row) * rowStride +
                                                (4 * four + lane % 4) * 8);
      words = transposeQuad(words);
      target[2 * four].blocks[half] = words.x;
      target[2 * four].blocks[half + 2] = words.y;
      target[2 * four + 1].blocks[half] = words.z;
      target[2 * four + 1].blocks[half + 2] = words.w;
    }
  }
}

/** Stores sums (16 x WIDTH) as rows first ... first + 15, up to `end`. */
__device__ inline void storeRows(Bf16* target, int rowStride, int first, int end, const float (&sums)[groups][4],
                                 float scale0 = 1, float scale1 = 1) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    int row = first + lane / 4 + 8 * half;
    float scale = half ? scale1 : scale0;
#pragma unroll
    for (int four = 0; four < groups; four += 4) {
      uint32 words[4];
#pragma unroll
      for (int i = 0; i < 4; i++)
        words[i] = pack(sums[four + i][2 * half] * scale, sums[four + i][2 * half + 1] * scale);
      uint4 group = transposeQuad(make_uint4(words[0], words[1], words[2], words[3]));
      if (row < end)
        *reinterpret_cast<uint4*>(target + static_cast<long long>(row) * rowStride + (four + lane % 4) * 8) = group;
    }
  }
}

/** The tokens of a text, its queries, and where its outputs are. */
struct Text {
  int first, count, queries, firstOutput;
};

__device__ inline Text locateText(const int* starts, const int* outputStarts, int length, int firstOnly) {
  int text = blockIdx.x;
  Text result;
  result.first = starts ? starts[text] : text * length;
  result.count = starts ? min(starts[text + 1] - result.first, KEYS) : length;
  result.queries = result.count;
  result.firstOutput = result.first;
  if (!firstOnly) return result;
  result.firstOutput = outputStarts ? outputStarts[text] : text;
  result.queries = min(result.count, outputStarts ? outputStarts[text + 1] - result.firstOutput : 1);
  return result;
}

/**
 * Dropout counts scores as [text, head, 128, 128]. A word of the stream decides about two
 * neighboring keys.
 */
__device__ inline uint64 dropoutWord(uint64 seed, int heads, int query, int key) {
  uint64 row = (static_cast<uint64>(blockIdx.x) * heads + blockIdx.y) * 128 + query;
  return randomWord(seed, row * 64 + key / 2);
}

extern "C" __global__ void __launch_bounds__(threads, KEYS == 64 ? 6 : 2)
attention_forward(const Bf16* __restrict__ projections, const int* __restrict__ starts,
                  const int* __restrict__ outputStarts, Bf16* __restrict__ output, float* __restrict__ logSums,
                  Dropout dropout, float scale, int heads, int length, int outputs, int firstOnly) {
  __shared__ alignas(16) Bf16 keys[KEYS * stride], values[KEYS * stride];
  Text text = locateText(starts, outputStarts, length, firstOnly);
  if (text.queries == 0) return;
  int hidden = heads * WIDTH, lane = threadIdx.x % 32;
  const Bf16* query = projections + static_cast<long long>(text.first) * 3 * hidden + blockIdx.y * WIDTH;
  int keyTiles = (text.count + 15) / 16;
#pragma unroll
  for (int i = 0; i < copies; i++) {
    int group = i * threads + threadIdx.x, row = group / groups, column = group % groups * 8;
    if (row >= keyTiles * 16) break;
    const Bf16* place = query + static_cast<long long>(min(row, text.count - 1)) * 3 * hidden + hidden + column;
    startCopy(keys + row * stride + column, place, row < text.count);
    startCopy(values + row * stride + column, place + hidden, row < text.count);
  }
  int firstQuery = static_cast<int>(threadIdx.x) / 32 * 16;
  Tile queryTiles[depth];
  loadRows(queryTiles, query, 3 * hidden, firstQuery, text.queries);
  finishCopies();
  if (firstQuery >= text.queries) return;

  float scores[tiles][2][4] = {};
  float largest[2] = {-1e30f, -1e30f};
#pragma unroll
  for (int tile = 0; tile < tiles; tile++) {
    if (tile >= keyTiles) continue;
    Tile right[depth];
#pragma unroll
    for (int i = 0; i < depth; i++) right[i] = loadTile<false>(keys + tile * 16 * stride + 16 * i, stride);
#pragma unroll
    for (int i = 0; i < depth; i++) multiplyByRows(scores[tile], queryTiles[i], right[i]);
#pragma unroll
    for (int j = 0; j < 8; j++) {
      float& score = scores[tile][j / 4][j % 4];
      int key = tile * 16 + j / 4 * 8 + lane % 4 * 2 + j % 2;
      if (key >= text.count) score = -1e30f;
      largest[j / 2 % 2] = fmaxf(largest[j / 2 % 2], score);
    }
  }
  // The four lanes of a row have different keys.
#pragma unroll
  for (int half = 0; half < 2; half++)
#pragma unroll
    for (int distance = 1; distance < 4; distance *= 2)
      largest[half] = fmaxf(largest[half], __shfl_xor_sync(0xffffffffu, largest[half], distance));

  uint64 seed = dropout.seed ? *dropout.seed : 0;
  float factor = scale * log2OfE, totals[2] = {}, sums[groups][4] = {};
#pragma unroll
  for (int tile = 0; tile < tiles; tile++) {
    if (tile >= keyTiles) continue;
#pragma unroll
    for (int j = 0; j < 8; j++) {
      float& score = scores[tile][j / 4][j % 4];
      score = exp2f((score - largest[j / 2 % 2]) * factor);
      totals[j / 2 % 2] += score;
    }
    if (dropout.seed)
#pragma unroll
      for (int pair = 0; pair < 4; pair++) {
        float(&both)[4] = scores[tile][pair / 2];
        int row = firstQuery + lane / 4 + pair % 2 * 8, key = tile * 16 + pair / 2 * 8 + lane % 4 * 2;
        uint64 bits = dropoutWord(seed, heads, row, key);
        if (static_cast<uint32>(bits) < dropout.limit) both[pair % 2 * 2] = 0;
        if (static_cast<uint32>(bits >> 32) < dropout.limit) both[pair % 2 * 2 + 1] = 0;
      }
    multiplyAndAdd(sums, toTile(scores[tile]), values + tile * 16 * stride);
  }
#pragma unroll
  for (int half = 0; half < 2; half++)
#pragma unroll
    for (int distance = 1; distance < 4; distance *= 2)
      totals[half] += __shfl_xor_sync(0xffffffffu, totals[half], distance);
  float kept = dropout.seed ? dropout.scale : 1;
  storeRows(output + static_cast<long long>(text.firstOutput) * hidden + blockIdx.y * WIDTH, hidden, firstQuery,
            text.queries, sums, kept / totals[0], kept / totals[1]);
  if (!logSums || lane % 4 != 0) return;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    int row = firstQuery + lane / 4 + 8 * half;
    if (row < text.queries)
      logSums[static_cast<long long>(blockIdx.y) * outputs + text.firstOutput + row] =
          largest[half] * factor + log2f(totals[half]);
  }
}

// The gradient of the projections. First every warp has 16 keys and goes through the queries; then
// every warp has 16 queries. With P = softmax, D = dropout and G = the gradient of the output:
//   dV = D(P)^T G,  dS = P * (D(G V^T) - rowSum(G * output)) * scale,  dK = dS^T Q,  dQ = dS K.
extern "C" __global__ void __launch_bounds__(threads, blocksPerProcessor)
attention_backward(const Bf16* __restrict__ projections, const int* __restrict__ starts,
                   const int* __restrict__ outputStarts, const Bf16* __restrict__ output,
                   const Bf16* __restrict__ gradient, const float* __restrict__ logSums,
                   Bf16* __restrict__ projectionGradient, Dropout dropout, float scale, int heads, int length,
                   int outputs, int firstOnly) {
  extern __shared__ uint4 memory[];
  Bf16* queries = reinterpret_cast<Bf16*>(memory);
  Bf16* gradients = queries + KEYS * stride;
  Bf16* keys = gradients + KEYS * stride;
  Bf16* values = keys + KEYS * stride;
  Bf16* scoreGradients = values + KEYS * stride;  // [key, query]
  float* logs = reinterpret_cast<float*>(scoreGradients + KEYS * scoreStride);
  float* dots = logs + KEYS;  // rowSum(G * output)
  Text text = locateText(starts, outputStarts, length, firstOnly);
  int hidden = heads * WIDTH, lane = threadIdx.x % 32;
  long long start = static_cast<long long>(text.first) * 3 * hidden + blockIdx.y * WIDTH;
  long long outputStart = static_cast<long long>(text.firstOutput) * hidden + blockIdx.y * WIDTH;
  int keyTiles = (text.count + 15) / 16, queryTiles = (text.queries + 15) / 16;
  uint4 outer[copies] = {}, result[copies] = {};
#pragma unroll
  for (int i = 0; i < copies; i++) {
    int group = i * threads + threadIdx.x, row = group / groups, column = group % groups * 8;
    if (row >= keyTiles * 16) break;
    const Bf16* place = projections + start + static_cast<long long>(min(row, text.count - 1)) * 3 * hidden + column;
    startCopy(queries + row * stride + column, place, row < text.queries);
    startCopy(keys + row * stride + column, place + hidden, row < text.count);
    startCopy(values + row * stride + column, place + 2 * hidden, row < text.count);
    if (row >= text.queries) continue;
    long long index = outputStart + static_cast<long long>(row) * hidden + column;
    outer[i] = *reinterpret_cast<const uint4*>(gradient + index);
    result[i] = *reinterpret_cast<const uint4*>(output + index);
  }
#pragma unroll
  for (int i = 0; i < copies; i++) {
    int group = i * threads + threadIdx.x, row = group / groups, column = group % groups * 8;
    if (row >= keyTiles * 16) break;
    *reinterpret_cast<uint4*>(gradients + row * stride + column) = outer[i];
    const Bf16* left = reinterpret_cast<const Bf16*>(&outer[i]);
    const Bf16* right = reinterpret_cast<const Bf16*>(&result[i]);
    float dot = 0;
#pragma unroll
    for (int j = 0; j < 8; j++) dot += bf16ToFloat(left[j]) * bf16ToFloat(right[j]);
#pragma unroll
    for (int distance = 1; distance < groups; distance *= 2) dot += __shfl_xor_sync(0xffffffffu, dot, distance);
    if (column > 0) continue;
    dots[row] = dot;
    // A row without a query gets probability 0.
    long long index = static_cast<long long>(blockIdx.y) * outputs + text.firstOutput + row;
    logs[row] = row < text.queries ? logSums[index] : 1e30f;
  }
  int firstRow = static_cast<int>(threadIdx.x) / 32 * 16;
  uint64 seed = dropout.seed ? *dropout.seed : 0;
  finishCopies();

  if (firstRow < text.count) {
    float keySums[groups][4] = {}, valueSums[groups][4] = {};
    bool isOdd = lane / 4 % 2 == 1;
    for (int tile = 0; tile < queryTiles; tile++) {
      const Bf16* tileQueries = queries + tile * 16 * stride;
      const Bf16* tileGradients = gradients + tile * 16 * stride;
      float scores[2][4] = {}, outer[2][4] = {};
#pragma unroll
      for (int i = 0; i < depth; i++) {
        multiplyByRows(scores, loadTile<false>(keys + firstRow * stride + 16 * i, stride),
                       loadTile<false>(tileQueries + 16 * i, stride));
        multiplyByRows(outer, loadTile<false>(values + firstRow * stride + 16 * i, stride),
                       loadTile<false>(tileGradients + 16 * i, stride));
      }
#pragma unroll
      for (int pair = 0; pair < 4; pair++) {
        int query = tile * 16 + pair / 2 * 8 + lane % 4 * 2, key = firstRow + lane / 4 + pair % 2 * 8;
        uint32 bits[2] = {0xffffffffu, 0xffffffffu};
        if (dropout.seed) {
          // The word of two keys and one query is computed by one of the two lanes that need it.
          uint64 word = dropoutWord(seed, heads, query + isOdd, key);
          uint32 low = static_cast<uint32>(word), high = static_cast<uint32>(word >> 32);
          uint32 received = __shfl_xor_sync(0xffffffffu, isOdd ? low : high, 4);
          bits[0] = isOdd ? received : low;
          bits[1] = isOdd ? high : received;
        }
#pragma unroll
        for (int j = 0; j < 2; j++) {
          float& score = scores[pair / 2][pair % 2 * 2 + j];
          float& inner = outer[pair / 2][pair % 2 * 2 + j];
          float kept = !dropout.seed ? 1 : bits[j] >= dropout.limit ? dropout.scale : 0;
          float probability = key < text.count ? exp2f(score * scale * log2OfE - logs[query + j]) : 0;
          score = probability * kept;
          inner = probability * (inner * kept - dots[query + j]) * scale;
        }
      }
      multiplyAndAdd(valueSums, toTile(scores), tileGradients);
      Tile inner = toTile(outer);
      multiplyAndAdd(keySums, inner, tileQueries);
      Bf16* corner = scoreGradients + (firstRow + lane / 4) * scoreStride + tile * 16 + lane % 4 * 2;
      uint32* place = reinterpret_cast<uint32*>(corner);
      place[0] = inner.blocks[0];
      place[4 * scoreStride] = inner.blocks[1];
      place[4] = inner.blocks[2];
      place[4 * scoreStride + 4] = inner.blocks[3];
    }
    storeRows(projectionGradient + start + hidden, 3 * hidden, firstRow, text.count, keySums);
    storeRows(projectionGradient + start + 2 * hidden, 3 * hidden, firstRow, text.count, valueSums);
  }
  __syncthreads();

  if (firstRow >= text.count) return;
  float querySums[groups][4] = {};
  if (firstRow < text.queries)
    for (int tile = 0; tile < keyTiles; tile++) {
      Tile found = loadTile<true>(scoreGradients + tile * 16 * scoreStride + firstRow, scoreStride);
      Tile left = {found.blocks[0], found.blocks[2], found.blocks[1], found.blocks[3]};
      multiplyAndAdd(querySums, left, keys + tile * 16 * stride);
    }
  storeRows(projectionGradient + start, 3 * hidden, firstRow, text.count, querySums);
}
