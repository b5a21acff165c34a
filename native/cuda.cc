// The GPU, where this build has one: streams, graphs, memory. Without CUDA only `devices` answers, with none.
#include "door.h"
#include "slots.h"

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
    set(call.env, device, "capability", fromText(call.env, std::to_string(properties.major) + "." + std::to_string(properties.minor)));
    napi_set_element(call.env, array, i, device);
  }
#endif
  return array;
}

#ifdef TEMPER_CUDA

/** useStream(device): makes a GPU the current one. Work leaves its default stream: a graph can only be captured on another one. */
napi_value useStream(const Call& call) {
  auto device = static_cast<c10::DeviceIndex>(toInteger(call.env, call.at(0)));
  c10::cuda::set_device(device);
  c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(false, device));
  return nullptr;
}

napi_value synchronize(const Call&) {
  c10::cuda::device_synchronize();
  return nullptr;
}

napi_value deviceMemory(const Call& call) {
  auto device = static_cast<c10::DeviceIndex>(toInteger(call.env, call.at(0)));
  // Before the first tensor the allocator knows no device.
  decltype(c10::cuda::CUDACachingAllocator::getDeviceStats(device)) statistics;
  if (c10::cuda::CUDACachingAllocator::get()->initialized()) statistics = c10::cuda::CUDACachingAllocator::getDeviceStats(device);
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

napi_value emptyCache(const Call&) {
  c10::cuda::CUDACachingAllocator::emptyCache();
  return nullptr;
}

/** Whether float32 products may round their inputs to TF32. */
napi_value allowTf32(const Call& call) {
  bool allowed = toBoolean(call.env, call.at(0));
  at::globalContext().setAllowTF32CuBLAS(allowed);
  at::globalContext().setAllowTF32CuDNN(allowed);
  return nullptr;
}

// Random states. Operators draw from the default generator only; its state can be swapped, inside a capture too, and a replay reads
// each state's seed from the device. So every named part of a step has a state of its own, and its seed decides it.

template <typename T>
std::vector<T>& table() {
  static auto* values = new std::vector<T>();  // never destroyed: CUDA may be gone before our statics
  return *values;
}

at::Generator& randomState(int64_t index) {
  auto& states = table<at::Generator>();
  if (index < 0 || index > 65536) throw std::invalid_argument("random state " + std::to_string(index) + " is out of range");
  while (static_cast<int64_t>(states.size()) <= index) states.push_back(at::cuda::detail::createCUDAGenerator());
  return states[index];
}

bool capturing() { return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None; }

void seedState(at::Generator& generator, int64_t seed) {
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(static_cast<uint64_t>(seed));
}

/** enterRandom(state, seed): what is drawn next comes from that state. Inside a capture the seed is the replay's affair. */
napi_value enterRandom(const Call& call) {
  at::Generator& own = randomState(toInteger(call.env, call.at(0)));
  if (!capturing()) seedState(own, toInteger(call.env, call.at(1)));
  at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.graphsafe_set_state(own.graphsafe_get_state());
  return nullptr;
}

napi_value seedRandom(const Call& call) {
  seedState(randomState(toInteger(call.env, call.at(0))), toInteger(call.env, call.at(1)));
  return nullptr;
}

// Graphs: the work between begin and end is recorded, not done, and done again at each replay. All share one pool of memory.

using Graph = std::unique_ptr<at::cuda::CUDAGraph>;
Graph& recording() {
  static auto* graph = new Graph();
  return *graph;
}

/** The pool of all living graphs; libtorch forgets a pool with its last graph, so the next graph then starts another. */
at::cuda::MempoolId_t& sharedPool() {
  static at::cuda::MempoolId_t pool{0, 0};
  bool used = false;
  for (const auto& graph : table<Graph>()) used = used || graph != nullptr;
  if (!used) pool = at::cuda::graph_pool_handle();
  return pool;
}

/** Newer libtorch registers a state when it is first used in a capture; older ones want it before. */
template <typename G>
void registerState(G& graph, const at::Generator& state) {
  if constexpr (requires { graph.register_generator_state(state); }) graph.register_generator_state(state);
}

/** What ran operator by operator left its memory in a cache that a graph's pool cannot use: where little else is free, it goes back. */
void makeRoom() {
  size_t available = 0, total = 0;
  cudaMemGetInfo(&available, &total);
  auto statistics = c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
  auto unused = statistics.reserved_bytes[0].current - statistics.allocated_bytes[0].current;
  if (static_cast<int64_t>(available) < 2 * unused) c10::cuda::CUDACachingAllocator::emptyCache();
}

/** graphBegin(states): the random states that the work will enter. */
napi_value graphBegin(const Call& call) {
  if (recording()) throw std::runtime_error("a graph is being recorded already");
  c10::cuda::device_synchronize();
  makeRoom();
  recording() = std::make_unique<at::cuda::CUDAGraph>();
  try {
    for (int64_t index : toIntegers(call.env, call.at(0))) registerState(*recording(), randomState(index).graphsafe_get_state());
    recording()->capture_begin(sharedPool());
  } catch (...) {
    recording().reset();
    throw;
  }
  return nullptr;
}

napi_value graphEnd(const Call& call) {
  if (!recording()) throw std::runtime_error("no graph is being recorded");
  Graph graph = std::move(recording());
  graph->capture_end();
  table<Graph>().push_back(std::move(graph));
  return fromDouble(call.env, static_cast<double>(table<Graph>().size() - 1));
}

/** graphAbort(): ends a recording whose work failed. */
napi_value graphAbort(const Call&) {
  Graph graph = std::move(recording());
  if (graph) try { graph->capture_end(); } catch (...) {}
  return nullptr;
}

Graph& graphOf(const Call& call) {
  auto index = toInteger(call.env, call.at(0));
  if (index < 0 || index >= static_cast<int64_t>(table<Graph>().size()) || !table<Graph>()[index]) throw std::invalid_argument("no such graph");
  return table<Graph>()[index];
}

napi_value graphReplay(const Call& call) {
  graphOf(call)->replay();
  return nullptr;
}

napi_value graphFree(const Call& call) {
  graphOf(call).reset();
  return nullptr;
}

/** eventRecord(id): marks this point of the stream; eventWait(id) lets the host wait until the device has passed it. */
at::cuda::CUDAEvent& eventOf(const Call& call) {
  auto& events = table<std::unique_ptr<at::cuda::CUDAEvent>>();
  auto index = toInteger(call.env, call.at(0));
  if (index < 0 || index > 65536) throw std::invalid_argument("event out of range");
  while (static_cast<int64_t>(events.size()) <= index) events.push_back(std::make_unique<at::cuda::CUDAEvent>());
  return *events[index];
}

napi_value eventRecord(const Call& call) {
  eventOf(call).record();
  return nullptr;
}

napi_value eventWait(const Call& call) {
  if (eventOf(call).isCreated()) eventOf(call).synchronize();
  return nullptr;
}

// Branches: small pieces of work side by side on streams of their own, between fork and join. What they use was allocated before the fork
// and is freed after the join, so the allocator need not know of them.

std::optional<c10::cuda::CUDAStream>& home() {
  static std::optional<c10::cuda::CUDAStream> stream;
  return stream;
}

c10::cuda::CUDAStream branchStream(int64_t index) {
  auto& streams = table<c10::cuda::CUDAStream>();
  if (index < 0 || index >= 32) throw std::invalid_argument("branch out of range");  // libtorch's pool has 32
  while (static_cast<int64_t>(streams.size()) <= index) streams.push_back(c10::cuda::getStreamFromPool(false, home()->device_index()));
  return streams[index];
}

/** branchesFork(count): branches start where the current stream is. */
napi_value branchesFork(const Call& call) {
  if (home()) throw std::runtime_error("branches are open already");
  home() = c10::cuda::getCurrentCUDAStream();
  at::cuda::CUDAEvent start;
  start.record(*home());
  for (int64_t i = 0; i < toInteger(call.env, call.at(0)); i++) start.block(branchStream(i));
  return nullptr;
}

napi_value branchEnter(const Call& call) {
  if (!home()) throw std::runtime_error("no branches are open");
  c10::cuda::setCurrentCUDAStream(branchStream(toInteger(call.env, call.at(0))));
  return nullptr;
}

/** branchesJoin(count): the stream that forked goes on when all of them are done. */
napi_value branchesJoin(const Call& call) {
  if (!home()) throw std::runtime_error("no branches are open");
  c10::cuda::CUDAStream stream = *home();
  for (int64_t i = 0; i < toInteger(call.env, call.at(0)); i++) {
    at::cuda::CUDAEvent end;
    end.record(branchStream(i));
    end.block(stream);
  }
  c10::cuda::setCurrentCUDAStream(stream);
  home().reset();
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
  define<allowTf32>(env, exports, "allowTf32");
  define<enterRandom>(env, exports, "enterRandom");
  define<seedRandom>(env, exports, "seedRandom");
  define<graphBegin>(env, exports, "graphBegin");
  define<graphEnd>(env, exports, "graphEnd");
  define<graphAbort>(env, exports, "graphAbort");
  define<graphReplay>(env, exports, "graphReplay");
  define<graphFree>(env, exports, "graphFree");
  define<eventRecord>(env, exports, "eventRecord");
  define<eventWait>(env, exports, "eventWait");
  define<branchesFork>(env, exports, "branchesFork");
  define<branchEnter>(env, exports, "branchEnter");
  define<branchesJoin>(env, exports, "branchesJoin");
#endif
}

}  // namespace temper
