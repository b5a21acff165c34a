// One step of AdamW for up to 64 tensors:
//   m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g², with the clipped gradient g,
//   w = (1 - rate decay) w - rate / c1 · m / (sqrt(v / c2) + epsilon), c = 1 - beta^step.
// An uncorrected epsilon is added before the bias correction: sqrt(v / c2) + epsilon / sqrt(c2).
// It also writes w in bfloat16, if forward passes use such a copy.
constexpr int threads = 256;
constexpr int elementsPerBlock = threads * 16;
constexpr int maxEntries = 64;

struct Entry {
  float* weight;
  float* first;
  float* second;
  const void* gradient;
  unsigned short* copy;  // null: none
  long long count;
  int firstBlock;
  int kind;  // bit 0: the gradient is bfloat16; bit 1: four elements can be read at once
};

/** Kernel arguments have at most 4 KiB. */
struct Table {
  Entry entries[maxEntries];
  int count;
};

struct Constants {
  float beta1, beta2, logBeta1, logBeta2, weightDecay, epsilon;
  int hasUncorrectedEpsilon;
};

/** The factors that all elements share. */
struct Factors {
  float gradient, decay, stepSize, inverseRoot, epsilon;
};

__device__ inline void update(float& weight, float& first, float& second, float gradient, const Factors& factors,
                              const Constants& constants) {
  gradient *= factors.gradient;
  first = constants.beta1 * first + (1 - constants.beta1) * gradient;
  second = constants.beta2 * second + (1 - constants.beta2) * gradient * gradient;
  float scale = sqrtf(second) * factors.inverseRoot + factors.epsilon;
  weight = weight * factors.decay - factors.stepSize * (first / scale);
}

struct alignas(8) FourHalves {
  unsigned short elements[4];
};

extern "C" __global__ void __launch_bounds__(threads)
adamw_step(const __grid_constant__ Table table, const float* step, const float* learningRate, const float* clipFactor,
           Constants constants) {
  // The last entry that starts at this block or before it.
  int low = 0, high = table.count - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (table.entries[middle].firstBlock <= static_cast<int>(blockIdx.x)) low = middle;
    else high = middle - 1;
  }
  float* __restrict__ weight = table.entries[low].weight;
  float* __restrict__ first = table.entries[low].first;
  float* __restrict__ second = table.entries[low].second;
  const void* __restrict__ gradient = table.entries[low].gradient;
  unsigned short* __restrict__ copy = table.entries[low].copy;
  bool isBf16 = table.entries[low].kind & 1, isVectorized = table.entries[low].kind & 2;

  float rate = *learningRate, count = *step;
  Factors factors;
  factors.gradient = clipFactor ? *clipFactor : 1.0f;
  factors.decay = 1 - rate * constants.weightDecay;
  factors.stepSize = rate / -expm1f(count * constants.logBeta1);
  factors.inverseRoot = 1 / sqrtf(-expm1f(count * constants.logBeta2));
  factors.epsilon = constants.epsilon * (constants.hasUncorrectedEpsilon ? factors.inverseRoot : 1);

  long long start = (static_cast<long long>(blockIdx.x) - table.entries[low].firstBlock) * elementsPerBlock;
  long long end = min(start + elementsPerBlock, table.entries[low].count);
  long long vectorEnd = isVectorized ? start + (end - start) / 4 * 4 : start;
  for (long long index = start + threadIdx.x * 4; index < vectorEnd; index += threads * 4) {
    float4 w = *reinterpret_cast<const float4*>(weight + index);
    float4 m = *reinterpret_cast<const float4*>(first + index);
    float4 v = *reinterpret_cast<const float4*>(second + index);
    float4 g;
    if (isBf16) {
      FourHalves halves = *reinterpret_cast<const FourHalves*>(static_cast<const unsigned short*>(gradient) + index);
      g = make_float4(bf16ToFloat(halves.elements[0]), bf16ToFloat(halves.elements[1]),
                      bf16ToFloat(halves.elements[2]), bf16ToFloat(halves.elements[3]));
    } else {
      g = *reinterpret_cast<const float4*>(static_cast<const float*>(gradient) + index);
    }
    update(w.x, m.x, v.x, g.x, factors, constants);
    update(w.y, m.y, v.y, g.y, factors, constants);
    update(w.z, m.z, v.z, g.z, factors, constants);
    update(w.w, m.w, v.w, g.w, factors, constants);
    *reinterpret_cast<float4*>(weight + index) = w;
    *reinterpret_cast<float4*>(first + index) = m;
    *reinterpret_cast<float4*>(second + index) = v;
    if (copy)
      *reinterpret_cast<FourHalves*>(copy + index) =
          FourHalves{{floatToBf16(w.x), floatToBf16(w.y), floatToBf16(w.z), floatToBf16(w.w)}};
  }
  for (long long index = vectorEnd + threadIdx.x; index < end; index += threads) {
    float w = weight[index], m = first[index], v = second[index];
    float g = isBf16 ? bf16ToFloat(static_cast<const unsigned short*>(gradient)[index])
                     : static_cast<const float*>(gradient)[index];
    update(w, m, v, g, factors, constants);
    weight[index] = w;
    first[index] = m;
    second[index] = v;
    if (copy) copy[index] = floatToBf16(w);
  }
}
