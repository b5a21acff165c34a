// Dropout masks on the CPU. libtorch generates them on one thread, one number at a time, which
// takes a tenth of a training step. gpu/kernels/dropout.cu computes the same function of a seed.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <mutex>

#include "binding/exports.h"
#include "binding/slots.h"

namespace temper {
namespace {

/**
 * The i-th word of a counter-based stream (splitmix64). Any thread can start anywhere, so the
 * result does not depend on the number of threads.
 */
inline uint64_t randomWord(uint64_t seed, uint64_t i) {
  uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/** Fills with 0 at probability p and 1 / (1 - p) otherwise. Each element uses 32 random bits. */
template <typename T>
void fill(T* data, int64_t count, double p, uint64_t seed) {
  auto limit = static_cast<uint32_t>(p * 4294967296.0);
  const T values[2] = {T(0), static_cast<T>(1 / (1 - p))};  // a table, because random branches mispredict
  at::parallel_for(0, count / 2, 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      uint64_t bits = randomWord(seed, static_cast<uint64_t>(i));
      data[2 * i] = values[static_cast<uint32_t>(bits) >= limit];
      data[2 * i + 1] = values[static_cast<uint32_t>(bits >> 32) >= limit];
    }
  });
  if (count % 2) data[count - 1] = values[static_cast<uint32_t>(randomWord(seed, static_cast<uint64_t>(count / 2))) >= limit];
}

/** fillDropoutMask(handle, p): the seed comes from libtorch's default generator, as for libtorch's dropout. */
napi_value fillDropoutMask(const Call& call) {
  at::Tensor mask = toTensor(call.env, call.at(0));
  double p = toDouble(call.env, call.at(1));
  if (!(p >= 0 && p < 1))
    throw std::invalid_argument("expected a probability in [0, 1), received " + std::to_string(p));
  if (!mask.device().is_cpu() || !mask.is_contiguous()) throw std::invalid_argument("expected a contiguous CPU tensor");
  auto generator = at::globalContext().defaultGenerator(at::kCPU);
  uint64_t seed;
  {
    std::lock_guard<std::mutex> lock(generator.mutex());
    seed = generator.get<at::CPUGeneratorImpl>()->random64();
  }
  if (mask.scalar_type() == at::kFloat) fill(mask.data_ptr<float>(), mask.numel(), p, seed);
  else if (mask.scalar_type() == at::kDouble) fill(mask.data_ptr<double>(), mask.numel(), p, seed);
  else if (mask.scalar_type() == at::kBFloat16) fill(mask.data_ptr<at::BFloat16>(), mask.numel(), p, seed);
  else
    throw std::invalid_argument(std::string("expected a float32, float64 or bfloat16 tensor, received ") +
                                c10::toString(mask.scalar_type()));
  return nullptr;
}

}  // namespace

void defineDropout(napi_env env, napi_value exports) { define<fillDropoutMask>(env, exports, "fillDropoutMask"); }

}  // namespace temper
