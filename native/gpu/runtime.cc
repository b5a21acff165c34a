// CUDA streams, graphs and memory: the sibling of binding/runtime.cc on a GPU. A build without CUDA exports only `devices`, which returns an
// empty list.
#include "binding/exports.h"
#include "binding/slots.h"

#ifdef TEMPER_CUDA
#include <ATen/Context.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
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
    auto sharedBytes = static_cast<double>(properties.sharedMemPerBlockOptin);
    set(call.env, device, "sharedBytes", fromDouble(call.env, sharedBytes));
    auto capability = std::to_string(properties.major) + "." + std::to_string(properties.minor);
    set(call.env, device, "capability", fromText(call.env, capability));
    napi_set_element(call.env, array, i, device);
  }
#endif
  return array;
}

#ifdef TEMPER_CUDA

/** Returns true if other processes use the GPU, too. Then a process that waits must not occupy a core. */
bool isGpuShared() { return std::getenv("TEMPER_SHARED_GPU") != nullptr; }

/**
 * useStream(device): selects a GPU and a stream other than the default one.
 * A graph cannot be captured on the default stream.
 */
napi_value useStream(const Call& call) {
  auto device = static_cast<c10::DeviceIndex>(toInteger(call.env, call.at(0)));
  c10::cuda::set_device(device);
  if (isGpuShared()) cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync);
  c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(false, device));
  return nullptr;
}

napi_value synchronize(const Call&) {
  c10::cuda::device_synchronize();
  return nullptr;
}

napi_value deviceMemory(const Call& call) {
  auto device = static_cast<c10::DeviceIndex>(toInteger(call.env, call.at(0)));
  // The allocator has no statistics before the first tensor.
  decltype(c10::cuda::CUDACachingAllocator::getDeviceStats(device)) statistics;
  if (c10::cuda::CUDACachingAllocator::get()->initialized())
    statistics = c10::cuda::CUDACachingAllocator::getDeviceStats(device);
  size_t available = 0, total = 0;
  c10::cuda::CUDAGuard guard(device);
  cudaMemGetInfo(&available, &total);
  napi_value object = newObject(call.env);
  set(call.env, object, "bytes", fromDouble(call.env, static_cast<double>(statistics.allocated_bytes[0].current)));
  set(call.env, object, "peakBytes", fromDouble(call.env, static_cast<double>(statistics.allocated_bytes[0].peak)));
  set(call.env, object, "cachedBytes", fromDouble(call.env, static_cast<double>(statistics.reserved_bytes[0].current)));
  set(call.env, object, "availableBytes", fromDouble(call.env, static_cast<double>(available)));
  return object;
}

/** resetPeakMemory(device): `peakBytes` starts again at the memory that is in use. */
napi_value resetPeakMemory(const Call& call) {
  c10::cuda::CUDACachingAllocator::resetPeakStats(static_cast<c10::DeviceIndex>(toInteger(call.env, call.at(0))));
  return nullptr;
}

napi_value emptyCache(const Call&) {
  c10::cuda::CUDACachingAllocator::emptyCache();
  return nullptr;
}

/** allowTf32(on): whether float32 matrix products may round their inputs to TF32. */
napi_value allowTf32(const Call& call) {
  bool allowed = toBoolean(call.env, call.at(0));
  at::globalContext().setAllowTF32CuBLAS(allowed);
  at::globalContext().setAllowTF32CuDNN(allowed);
  return nullptr;
}

napi_value isTf32Allowed(const Call& call) { return fromBoolean(call.env, at::globalContext().allowTF32CuBLAS()); }

// Random states. Operators use only the default generator. Its state can be swapped, also during a
// capture, and a replay reads the seed of each state from the device. So every named part of a step
// has its own state, and the seed of that state determines its random numbers.

template <typename T>
std::vector<T>& table() {
  static auto* values = new std::vector<T>();  // never destroyed: CUDA may shut down before our statics
  return *values;
}

at::Generator& randomState(int64_t index) {
  auto& states = table<at::Generator>();
  if (index < 0 || index > 65536)
    throw std::invalid_argument("random state " + std::to_string(index) + " is out of range");
  while (static_cast<int64_t>(states.size()) <= index) states.push_back(at::cuda::detail::createCUDAGenerator());
  return states[index];
}

bool isCapturing() { return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None; }

void seedState(at::Generator& generator, int64_t seed) {
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(static_cast<uint64_t>(seed));
}

/**
 * enterRandom(state, seed): the next random numbers come from that state.
 * During a capture the seed is ignored, because the replay sets it.
 */
napi_value enterRandom(const Call& call) {
  at::Generator& state = randomState(toInteger(call.env, call.at(0)));
  if (!isCapturing()) seedState(state, toInteger(call.env, call.at(1)));
  at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.graphsafe_set_state(state.graphsafe_get_state());
  return nullptr;
}

/** seedRandom(state, seed): sets the seed that the next replay reads. */
napi_value seedRandom(const Call& call) {
  seedState(randomState(toInteger(call.env, call.at(0))), toInteger(call.env, call.at(1)));
  return nullptr;
}

// Graphs: the work between begin and end is captured but not run. Each replay runs it. All graphs
// share one memory pool.

using Graph = std::unique_ptr<at::cuda::CUDAGraph>;
Graph& activeCapture() {
  static auto* graph = new Graph();
  return *graph;
}

/**
 * The memory pool of all live graphs. libtorch drops a pool with its last graph, so then a new one
 * starts.
 */
at::cuda::MempoolId_t& sharedPool() {
  static at::cuda::MempoolId_t pool{0, 0};
  bool used = false;
  for (const auto& graph : table<Graph>()) used = used || graph != nullptr;
  if (!used) pool = at::cuda::graph_pool_handle();
  return pool;
}

/**
 * Newer libtorch registers a state on first use in a capture; older versions need it beforehand.
 */
template <typename G>
void registerState(G& graph, const at::Generator& state) {
  if constexpr (requires { graph.register_generator_state(state); }) graph.register_generator_state(state);
}

/**
 * Releases memory cached by eager execution, which a graph pool cannot use, if it is much. The
 * eager step before a capture has cached as much as the graph will need.
 */
void freeLargeCache() {
  constexpr int64_t large = 256 << 20;
  auto statistics = c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
  if (statistics.reserved_bytes[0].current - statistics.allocated_bytes[0].current > large)
    c10::cuda::CUDACachingAllocator::emptyCache();
}

/**
 * graphBegin(states): starts a capture; `states` are the random states that the work will enter.
 */
napi_value graphBegin(const Call& call) {
  if (activeCapture()) throw std::runtime_error("another graph capture is already in progress");
  c10::cuda::device_synchronize();
  freeLargeCache();
  activeCapture() = std::make_unique<at::cuda::CUDAGraph>();
  try {
    for (int64_t index : toIntegers(call.env, call.at(0)))
      registerState(*activeCapture(), randomState(index).graphsafe_get_state());
    activeCapture()->capture_begin(sharedPool());
  } catch (...) {
    activeCapture().reset();
    throw;
  }
  return nullptr;
}

napi_value graphEnd(const Call& call) {
  if (!activeCapture()) throw std::runtime_error("no graph capture is in progress");
  Graph graph = std::move(activeCapture());
  graph->capture_end();
  table<Graph>().push_back(std::move(graph));
  return fromDouble(call.env, static_cast<double>(table<Graph>().size() - 1));
}

/** graphAbort(): ends a capture whose work failed. */
napi_value graphAbort(const Call&) {
  Graph graph = std::move(activeCapture());
  if (graph) try { graph->capture_end(); } catch (...) {}
  return nullptr;
}

Graph& getGraph(const Call& call) {
  auto index = toInteger(call.env, call.at(0));
  if (index < 0 || index >= static_cast<int64_t>(table<Graph>().size()) || !table<Graph>()[index])
    throw std::invalid_argument("no such graph");
  return table<Graph>()[index];
}

napi_value graphReplay(const Call& call) {
  getGraph(call)->replay();
  return nullptr;
}

napi_value graphFree(const Call& call) {
  getGraph(call).reset();
  return nullptr;
}

// Events: eventRecord(id) marks this point of the stream. eventWait(id) blocks the host until the
// device passes it. eventQuery(id) returns whether it has.

at::cuda::CUDAEvent& getEvent(const Call& call) {
  auto& events = table<std::unique_ptr<at::cuda::CUDAEvent>>();
  auto index = toInteger(call.env, call.at(0));
  if (index < 0 || index > 65536) throw std::invalid_argument("event out of range");
  unsigned flags = cudaEventDisableTiming | (isGpuShared() ? cudaEventBlockingSync : 0);
  while (static_cast<int64_t>(events.size()) <= index) events.push_back(std::make_unique<at::cuda::CUDAEvent>(flags));
  return *events[index];
}

napi_value eventRecord(const Call& call) {
  getEvent(call).record();
  return nullptr;
}

napi_value eventWait(const Call& call) {
  if (getEvent(call).isCreated()) getEvent(call).synchronize();
  return nullptr;
}

napi_value eventQuery(const Call& call) { return fromBoolean(call.env, getEvent(call).query()); }

// Branches: small tasks that run in parallel on separate streams between fork and join. Their
// tensors are allocated before the fork and freed after the join, so the allocator does not need to
// know the streams.

std::optional<c10::cuda::CUDAStream>& mainStream() {
  static std::optional<c10::cuda::CUDAStream> stream;
  return stream;
}

c10::cuda::CUDAStream branchStream(int64_t index) {
  auto& streams = table<c10::cuda::CUDAStream>();
  // libtorch has 32 streams in its pool.
  if (index < 0 || index >= 32) throw std::invalid_argument("branch out of range");
  while (static_cast<int64_t>(streams.size()) <= index)
    streams.push_back(c10::cuda::getStreamFromPool(false, mainStream()->device_index()));
  return streams[index];
}

/** branchesFork(count): the branches wait for the work already queued on the current stream. */
napi_value branchesFork(const Call& call) {
  if (mainStream()) throw std::runtime_error("branches are already open");
  mainStream() = c10::cuda::getCurrentCUDAStream();
  at::cuda::CUDAEvent start;
  start.record(*mainStream());
  for (int64_t i = 0; i < toInteger(call.env, call.at(0)); i++) start.block(branchStream(i));
  return nullptr;
}

napi_value branchEnter(const Call& call) {
  if (!mainStream()) throw std::runtime_error("no branches are open");
  c10::cuda::setCurrentCUDAStream(branchStream(toInteger(call.env, call.at(0))));
  return nullptr;
}

/** branchesJoin(count): the main stream continues when all branches are done. */
napi_value branchesJoin(const Call& call) {
  if (!mainStream()) throw std::runtime_error("no branches are open");
  c10::cuda::CUDAStream stream = *mainStream();
  for (int64_t i = 0; i < toInteger(call.env, call.at(0)); i++) {
    at::cuda::CUDAEvent end;
    end.record(branchStream(i));
    end.block(stream);
  }
  c10::cuda::setCurrentCUDAStream(stream);
  mainStream().reset();
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
  define<resetPeakMemory>(env, exports, "resetPeakMemory");
  define<emptyCache>(env, exports, "emptyCache");
  define<allowTf32>(env, exports, "allowTf32");
  define<isTf32Allowed>(env, exports, "isTf32Allowed");
  define<enterRandom>(env, exports, "enterRandom");
  define<seedRandom>(env, exports, "seedRandom");
  define<graphBegin>(env, exports, "graphBegin");
  define<graphEnd>(env, exports, "graphEnd");
  define<graphAbort>(env, exports, "graphAbort");
  define<graphReplay>(env, exports, "graphReplay");
  define<graphFree>(env, exports, "graphFree");
  define<eventRecord>(env, exports, "eventRecord");
  define<eventWait>(env, exports, "eventWait");
  define<eventQuery>(env, exports, "eventQuery");
  define<branchesFork>(env, exports, "branchesFork");
  define<branchEnter>(env, exports, "branchEnter");
  define<branchesJoin>(env, exports, "branchesJoin");
#endif
}

}  // namespace temper
