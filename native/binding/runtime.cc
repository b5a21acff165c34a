// Process-wide settings and statistics: threads, random generators, memory, versions.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <torch/version.h>

#include "binding/control-group.h"
#include "binding/exports.h"
#include "binding/memory.h"
#include "binding/slots.h"

namespace temper {
namespace {

napi_value versions(const Call& call) {
  napi_value object = newObject(call.env);
  set(call.env, object, "libtorch", fromText(call.env, TORCH_VERSION));
  set(call.env, object, "configuration", fromText(call.env, at::show_config()));
  Dl_info info;
  // The address of any libtorch_cpu function tells which library file was loaded.
  bool found = dladdr(reinterpret_cast<void*>(&at::show_config), &info) != 0;
  set(call.env, object, "library", fromText(call.env, found && info.dli_fname ? info.dli_fname : ""));
  return object;
}

napi_value setNumThreads(const Call& call) {
  auto count = toInteger(call.env, call.at(0));
  if (count < 1 || count > 1024)
    throw std::invalid_argument("expected 1 to 1024 threads, received " + std::to_string(count));
  at::set_num_threads(static_cast<int>(count));
  return nullptr;
}

napi_value getNumThreads(const Call& call) { return fromDouble(call.env, at::get_num_threads()); }

napi_value seed(const Call& call) {
  auto generator = at::globalContext().defaultGenerator(at::Device(toText(call.env, call.at(0))));
  auto number = toInteger(call.env, call.at(1));
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(static_cast<uint64_t>(number));
  return nullptr;
}

napi_value memoryStats(const Call& call) {
  MemoryCounts counts = memoryCounts();
  napi_value object = newObject(call.env);
  set(call.env, object, "tensors", fromDouble(call.env, static_cast<double>(liveTensors())));
  set(call.env, object, "bytes", fromDouble(call.env, static_cast<double>(counts.live)));
  set(call.env, object, "peakBytes", fromDouble(call.env, static_cast<double>(counts.peak)));
  set(call.env, object, "cachedBytes", fromDouble(call.env, static_cast<double>(counts.cached)));
  set(call.env, object, "availableBytes", fromDouble(call.env, static_cast<double>(availableMemory())));
  return object;
}

/** controlGroupMemory(membership file, root folder): bytes that control groups still allow, for tests. */
napi_value remainingInGroups(const Call& call) {
  size_t bytes = controlGroupMemory(toText(call.env, call.at(0)), toText(call.env, call.at(1)));
  return fromDouble(call.env, static_cast<double>(bytes));
}

napi_value emptyCache(const Call& call) {
  emptyCpuCache(static_cast<size_t>(toInteger(call.env, call.at(0))));
  return nullptr;
}

}  // namespace

void defineRuntime(napi_env env, napi_value exports) {
  installAllocator();
  define<versions>(env, exports, "versions");
  define<setNumThreads>(env, exports, "setNumThreads");
  define<getNumThreads>(env, exports, "getNumThreads");
  define<seed>(env, exports, "seed");
  define<memoryStats>(env, exports, "memoryStats");
  define<remainingInGroups>(env, exports, "controlGroupMemory");
  define<emptyCache>(env, exports, "emptyCpuCache");
}

}  // namespace temper
