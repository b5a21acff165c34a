// Masks for dropout on the CPU. libtorch draws its own with one thread, a number at a time: a tenth of a training step.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <mutex>

#include "door.h"
#include "slots.h"

namespace temper {
namespace {

/** The i-th word of a stream: a counter, mixed (splitmix64). Any thread can begin anywhere, so their number changes nothing. */
inline uint64_t word(uint64_t seed, uint64_t i) {
  uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/** Zero for about `share` of the entries, the others scaled so that the sum stays the same on average. Each has 32 random bits. */
template <typename T>
void fill(T* data, int64_t count, double share, uint64_t seed) {
  auto limit = static_cast<uint32_t>(share * 4294967296.0);
  const T values[2] = {T(0), static_cast<T>(1 / (1 - share))};  // picked, not branched to: no processor can guess a random branch
  at::parallel_for(0, count / 2, 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      uint64_t bits = word(seed, static_cast<uint64_t>(i));
      data[2 * i] = values[static_cast<uint32_t>(bits) >= limit];
      data[2 * i + 1] = values[static_cast<uint32_t>(bits >> 32) >= limit];
    }
  });
  if (count % 2) data[count - 1] = values[static_cast<uint32_t>(word(seed, static_cast<uint64_t>(count / 2))) >= limit];
}

/** fillDropoutMask(handle, share): the stream's seed comes from libtorch's default generator, as dropout itself does. */
napi_value fillDropoutMask(const Call& call) {
  at::Tensor mask = toTensor(call.env, call.at(0));
  double share = toDouble(call.env, call.at(1));
  if (!(share >= 0 && share < 1)) throw std::invalid_argument("expected a share in [0, 1), received " + std::to_string(share));
  if (!mask.device().is_cpu() || !mask.is_contiguous()) throw std::invalid_argument("expected a contiguous CPU tensor");
  auto generator = at::globalContext().defaultGenerator(at::kCPU);
  uint64_t seed;
  {
    std::lock_guard<std::mutex> lock(generator.mutex());
    seed = generator.get<at::CPUGeneratorImpl>()->random64();
  }
  if (mask.scalar_type() == at::kFloat) fill(mask.data_ptr<float>(), mask.numel(), share, seed);
  else if (mask.scalar_type() == at::kDouble) fill(mask.data_ptr<double>(), mask.numel(), share, seed);
  else throw std::invalid_argument(std::string("expected a float32 or float64 tensor, received ") + c10::toString(mask.scalar_type()));
  return nullptr;
}

}  // namespace

void defineDropout(napi_env env, napi_value exports) { define<fillDropoutMask>(env, exports, "fillDropoutMask"); }

}  // namespace temper
