// Loads compiled kernels and launches them.
#include "binding/exports.h"

#ifdef TEMPER_CUDA
#include <dlfcn.h>

#include <map>
#include <set>
#include <tuple>

#include "gpu/launch.h"

namespace temper {
namespace {

/** The functions of the CUDA driver, which the process has already loaded. */
struct Driver {
  decltype(&cuModuleLoadData) loadModule;
  decltype(&cuModuleGetFunction) getFunction;
  decltype(&cuFuncSetAttribute) setAttribute;
  decltype(&cuLaunchKernel) launch;
  decltype(&cuCtxGetCurrent) getContext;
  decltype(&cuCtxSetCurrent) setContext;
  decltype(&cuDevicePrimaryCtxRetain) retainContext;
};

const Driver& driver() {
  static const Driver functions = [] {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    TORCH_CHECK(library, "the CUDA driver does not load: ", dlerror());
    return Driver{reinterpret_cast<decltype(&cuModuleLoadData)>(dlsym(library, "cuModuleLoadData")),
                  reinterpret_cast<decltype(&cuModuleGetFunction)>(dlsym(library, "cuModuleGetFunction")),
                  reinterpret_cast<decltype(&cuFuncSetAttribute)>(dlsym(library, "cuFuncSetAttribute")),
                  reinterpret_cast<decltype(&cuLaunchKernel)>(dlsym(library, "cuLaunchKernel")),
                  reinterpret_cast<decltype(&cuCtxGetCurrent)>(dlsym(library, "cuCtxGetCurrent")),
                  reinterpret_cast<decltype(&cuCtxSetCurrent)>(dlsym(library, "cuCtxSetCurrent")),
                  reinterpret_cast<decltype(&cuDevicePrimaryCtxRetain)>(dlsym(library, "cuDevicePrimaryCtxRetain"))};
  }();
  return functions;
}

void check(CUresult result, const std::string& what) {
  TORCH_CHECK(result == CUDA_SUCCESS, what, ": CUDA error ", static_cast<int>(result));
}

/**
 * Gives this thread the context of the GPU that libtorch uses. Only a call of the CUDA runtime gives a new thread one,
 * and a thread of autograd may launch before its first: with zero rows it allocates no fresh memory. Unlike such a call,
 * this is allowed during a capture. The context is retained once per thread, and lives as long as the process.
 */
void bindContext() {
  CUcontext context = nullptr;
  check(driver().getContext(&context), "the context of the GPU");
  if (context) return;
  check(driver().retainContext(&context, c10::cuda::current_device()), "the context of the GPU");
  check(driver().setContext(context), "the context of the GPU");
}

/** Loaded files by name, width and dtype, as in `loadKernels`. */
std::map<std::string, CUmodule>& modules() {
  static auto* loaded = new std::map<std::string, CUmodule>();
  return *loaded;
}

/** loadKernels(key, code): loads compiled kernels into the current GPU. */
napi_value loadKernels(const Call& call) {
  std::string key = toText(call.env, call.at(0));
  void* code = nullptr;
  size_t size = 0;
  if (napi_get_arraybuffer_info(call.env, call.at(1), &code, &size) != napi_ok || size == 0)
    throw std::invalid_argument("expected an ArrayBuffer with compiled kernels");
  bindContext();
  CUmodule module;
  check(driver().loadModule(&module, code), "loading " + key);
  modules()[key] = module;
  return nullptr;
}

}  // namespace

CUfunction findKernel(const std::string& file, int64_t width, at::ScalarType dtype, const char* name) {
  static auto* functions = new std::map<std::tuple<std::string, int64_t, at::ScalarType, std::string>, CUfunction>();
  auto& function = (*functions)[{file, width, dtype, name}];
  if (function) return function;
  auto key = file + " " + std::to_string(width) + (dtype == at::kBFloat16 ? " bfloat16" : " float32");
  auto module = modules().find(key);
  TORCH_CHECK(module != modules().end(), "the kernels ", key, " are not loaded");
  bindContext();
  check(driver().getFunction(&function, module->second, name), name);
  return function;
}

void allowSharedMemory(CUfunction function, unsigned bytes) {
  static auto* allowed = new std::set<CUfunction>();
  if (!allowed->insert(function).second) return;
  bindContext();
  auto set = [&](CUfunction_attribute attribute, int value) {
    check(driver().setAttribute(function, attribute, value), "shared memory of a kernel");
  };
  set(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes));
  set(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, CU_SHAREDMEM_CARVEOUT_MAX_SHARED);
}

void launchKernel(CUfunction function, dim3 grid, unsigned threads, unsigned sharedBytes, void** arguments) {
  if (grid.x == 0 || grid.y == 0) return;
  bindContext();
  auto stream = c10::cuda::getCurrentCUDAStream().stream();
  check(driver().launch(function, grid.x, grid.y, 1, threads, 1, 1, sharedBytes, stream, arguments, nullptr),
        "kernel launch");
}

void defineKernels(napi_env env, napi_value exports) { define<loadKernels>(env, exports, "loadKernels"); }

}  // namespace temper

#else

namespace temper {

void defineKernels(napi_env, napi_value) {}

}  // namespace temper

#endif
