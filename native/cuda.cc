// The GPU, where this build has one: streams, graphs, memory. Without CUDA only `devices` answers, with none.
#include "door.h"
#include "slots.h"

#ifdef TEMPER_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <unordered_map>
#endif

namespace temper {
namespace {

napi_value devices(const Call& call) {
  napi_value array;
  napi_create_array(call.env, &array);
#ifdef TEMPER_CUDA
  for (int i = 0; i < c10::cuda::device_count(); i++) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    napi_value device = newObject(call.env);
    set(call.env, device, "name", fromText(call.env, properties.name));
    set(call.env, device, "bytes", fromDouble(call.env, static_cast<double>(properties.totalGlobalMem)));
    set(call.env, device, "capability", fromText(call.env, std::to_string(properties.major) + "." + std::to_string(properties.minor)));
    napi_set_element(call.env, array, i, device);
  }
#endif
  return array;
}

#ifdef TEMPER_CUDA

/** Work leaves the default stream once and for all: a graph can only be captured on another one. */
napi_value useStream(const Call& call) {
  auto stream = c10::cuda::getStreamFromPool(false, static_cast<c10::DeviceIndex>(toInteger(call.env, call.at(0))));
  c10::cuda::setCurrentCUDAStream(stream);
  return nullptr;
}

napi_value synchronize(const Call&) {
  c10::cuda::device_synchronize();
  return nullptr;
}

napi_value deviceMemory(const Call& call) {
  auto device = static_cast<c10::DeviceIndex>(toInteger(call.env, call.at(0)));
  auto statistics = c10::cuda::CUDACachingAllocator::getDeviceStats(device);
  size_t available = 0, total = 0;
  cudaMemGetInfo(&available, &total);
  napi_value object = newObject(call.env);
  set(call.env, object, "bytes", fromDouble(call.env, static_cast<double>(statistics.allocated_bytes[0].current)));
  set(call.env, object, "peakBytes", fromDouble(call.env, static_cast<double>(statistics.allocated_bytes[0].peak)));
  set(call.env, object, "cachedBytes", fromDouble(call.env, static_cast<double>(statistics.reserved_bytes[0].current)));
  set(call.env, object, "availableBytes", fromDouble(call.env, static_cast<double>(available)));
  return object;
}

napi_value emptyCache(const Call&) {
  c10::cuda::CUDACachingAllocator::emptyCache();
  return nullptr;
}

#endif

}  // namespace

void defineCuda(napi_env env, napi_value exports) {
  define<devices>(env, exports, "devices");
#ifdef TEMPER_CUDA
  define<useStream>(env, exports, "useStream");
  define<synchronize>(env, exports, "synchronize");
  define<deviceMemory>(env, exports, "deviceMemory");
  define<emptyCache>(env, exports, "emptyCache");
#endif
}

}  // namespace temper
