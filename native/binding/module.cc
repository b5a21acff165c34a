// The entry point of the addon: claims the thread and defines the exports of every part.
#include <mutex>
#include <thread>

#include "binding/exports.h"

namespace {

std::mutex ownerMutex;
std::thread::id ownerThread;
int ownerEnvironments = 0;

/**
 * The table of tensors, libtorch's random generators and CUDA's streams belong to the process and
 * have no lock, so one thread at a time can own the addon. Returns false for any other thread.
 */
bool acquireThread(napi_env env) {
  std::lock_guard<std::mutex> lock(ownerMutex);
  if (ownerEnvironments > 0 && ownerThread != std::this_thread::get_id()) return false;
  ownerThread = std::this_thread::get_id();
  ownerEnvironments++;
  auto release = [](void*) {
    std::lock_guard<std::mutex> lock(ownerMutex);
    ownerEnvironments--;
  };
  napi_add_env_cleanup_hook(env, release, nullptr);
  return true;
}

}  // namespace

static napi_value initialize(napi_env env, napi_value exports) {
  if (!acquireThread(env)) {
    napi_throw_error(env, "ERR_TEMPER_THREAD",
                     "Another thread of this process already uses Temper, whose tensors and random generators are not "
                     "shared safely between threads. Use Temper in one thread, or start a process for each worker.");
    return nullptr;
  }
  return temper::guarded(env, [&] {
    temper::defineCpuid(env, exports);
    temper::defineDispatch(env, exports);
    temper::defineTensors(env, exports);
    temper::defineAutograd(env, exports);
    temper::defineRuntime(env, exports);
    temper::defineCrashReports(env, exports);
    temper::defineJitter(env, exports);
    temper::defineDropout(env, exports);
    temper::defineCuda(env, exports);
    temper::defineKernels(env, exports);
    temper::defineStore(env, exports);
    temper::defineProcessGroup(env, exports);
    temper::defineNvrtc(env, exports);
    return exports;
  });
}

NAPI_MODULE(temper, initialize)
