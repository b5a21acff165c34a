// Process groups of PyTorch's c10d: a TCP store for the meeting point, Gloo for CPU tensors and
// NCCL for GPU tensors.
#include <torch/version.h>

#include "exports.h"

#if TORCH_VERSION_MAJOR >= 2
#define USE_C10D_GLOO 1
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#if defined(TEMPER_CUDA) && __has_include(<nccl.h>)
#define TEMPER_NCCL 1
#define USE_C10D_NCCL 1
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include <c10/util/Logging.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <map>
#include <thread>

#include "slots.h"
#endif

namespace temper {
#if TORCH_VERSION_MAJOR >= 2
namespace {

using std::chrono::milliseconds;

/** Backends, works and stores by number. Never destroyed: libtorch's statics may end before. */
template <typename T>
struct Table {
  std::map<int64_t, c10::intrusive_ptr<T>> entries;
  int64_t next = 1;
  double add(c10::intrusive_ptr<T> entry) {
    entries.emplace(next, std::move(entry));
    return static_cast<double>(next++);
  }
  T& get(napi_env env, napi_value id) {
    auto found = entries.find(toInteger(env, id));
    if (found == entries.end()) throw std::invalid_argument("the process group is closed");
    return *found->second;
  }
};

template <typename T>
Table<T>& table() {
  static auto* entries = new Table<T>();
  return *entries;
}

milliseconds toMilliseconds(napi_env env, napi_value seconds) {
  return milliseconds(static_cast<int64_t>(1000 * toDouble(env, seconds, "a time in seconds")));
}

// While JavaScript waits for another process, its own signal handlers cannot run. The wait counts
// the signals itself: the first one is passed on as usual, the second one ends the wait.
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
std::atomic<int> signalCount{0};
struct sigaction previousActions[3];

void countSignal(int number, siginfo_t* info, void* context) {
  signalCount++;
  for (int i = 0; i < 3; i++) {
    if (kSignals[i] != number) continue;
    const auto& previous = previousActions[i];
    if (previous.sa_flags & SA_SIGINFO) previous.sa_sigaction(number, info, context);
    else previous.sa_handler(number);
  }
}

/** Counts signals while it exists. A signal that would end the process still does. */
class SignalCounter {
 public:
  SignalCounter() {
    signalCount = 0;
    for (int i = 0; i < 3; i++) {
      sigaction(kSignals[i], nullptr, &previousActions[i]);
      bool handled = (previousActions[i].sa_flags & SA_SIGINFO) ||
                     (previousActions[i].sa_handler != SIG_DFL && previousActions[i].sa_handler != SIG_IGN);
      installed_[i] = handled;
      if (!handled) continue;
      struct sigaction counting = previousActions[i];
      counting.sa_flags |= SA_SIGINFO;
      counting.sa_sigaction = countSignal;
      sigaction(kSignals[i], &counting, nullptr);
    }
  }
  ~SignalCounter() {
    for (int i = 0; i < 3; i++)
      if (installed_[i]) sigaction(kSignals[i], &previousActions[i], nullptr);
  }

 private:
  bool installed_[3] = {};
};

/** A rank that fails sets this key, so that the others do not wait for it. */
const std::string kFailedKey = "failed";

/**
 * Counts in the store once per second, so that the others know that this process lives, and
 * watches the counts of the others.
 */
struct Heartbeat {
  std::atomic<bool> stopped{false};
  /** Whether the store has ended, or another process has not counted for a while. */
  std::atomic<bool> lost{false};
  std::thread thread;
};
Heartbeat* heartbeat = nullptr;

/** A process that is only slow, because its host swaps, does not count as lost before. */
constexpr auto kSilence = std::chrono::seconds(10);

void beat(Heartbeat& self, c10d::Store& store, int64_t rank, int64_t size) {
  struct Count {
    int64_t value;
    std::chrono::steady_clock::time_point changed;
  };
  std::vector<Count> counts(size, {-1, std::chrono::steady_clock::now()});
  for (int64_t turn = 0; !self.stopped; turn++) {
    std::this_thread::sleep_for(milliseconds(turn == 0 ? 0 : 100));
    if (turn % 10 != 0) continue;
    auto now = std::chrono::steady_clock::now();
    for (int64_t other = 0; other < size; other++) {
      int64_t value = store.add("alive/" + std::to_string(other), other == rank ? 1 : 0);
      if (value != counts[other].value) counts[other] = {value, now};
      // A process that has not started yet is waited for elsewhere. One that has left is missed by nobody.
      bool hasLeft = now - counts[other].changed > kSilence && store.check({"left/" + std::to_string(other)});
      if (value > 0 && now - counts[other].changed > kSilence && !hasLeft) self.lost = true;
    }
  }
}

c10::intrusive_ptr<c10d::TCPStore> connectStore(const std::string& host, uint16_t port, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.timeout = timeout;
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

/** heartbeatStart(host, port, rank, size): starts to count and to watch. */
napi_value heartbeatStart(const Call& call) {
  int64_t rank = toInteger(call.env, call.at(2)), size = toInteger(call.env, call.at(3));
  auto connected = connectStore(toText(call.env, call.at(0)), static_cast<uint16_t>(toInteger(call.env, call.at(1))), kSilence);
  heartbeat = new Heartbeat();
  heartbeat->thread = std::thread([connected, rank, size, self = heartbeat] {
    try {
      beat(*self, *connected, rank, size);
    } catch (...) {
      self->lost = true;
    }
  });
  return nullptr;
}

/** Waits until `isDone`. Returns false at the time limit, and throws at a repeated signal. */
template <typename IsDone>
bool waitUntil(IsDone&& isDone, milliseconds limit, const char* what) {
  SignalCounter signals;
  auto start = std::chrono::steady_clock::now();
  for (int64_t turn = 0; !isDone(); turn++) {
    if (heartbeat && heartbeat->lost) throw std::runtime_error(std::string("no sign of life while waiting for ") + what);
    if (signalCount >= 2) throw std::runtime_error(std::string("stopped by a signal while waiting for ") + what);
    if (std::chrono::steady_clock::now() - start > limit) return false;
    // A reduction of a small tensor takes about 100 us, and a large one needs the cores itself.
    std::this_thread::sleep_for(std::chrono::microseconds(turn < 200 ? 20 : 1000));
  }
  return true;
}

c10::intrusive_ptr<c10d::TCPStore>* storeSlot = nullptr;

c10d::TCPStore& getStore() {
  if (!storeSlot || !*storeSlot) throw std::invalid_argument("the store is closed");
  return **storeSlot;
}

/** storeOpen(host, port, is server, timeout): connects to the store, or also hosts it. */
napi_value storeOpen(const Call& call) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(toInteger(call.env, call.at(1)));
  options.isServer = toBoolean(call.env, call.at(2));
  options.waitWorkers = false;
  options.timeout = toMilliseconds(call.env, call.at(3));
  // c10d logs C++ stack traces of errors that JavaScript reports anyway.
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", 0);
  c10::initLogging();
  if (!storeSlot) storeSlot = new c10::intrusive_ptr<c10d::TCPStore>();
  auto opened = c10::make_intrusive<c10d::TCPStore>(toText(call.env, call.at(0)), options);
  double port = opened->getPort();
  *storeSlot = std::move(opened);
  return fromDouble(call.env, port);
}

napi_value storeClose(const Call&) {
  if (heartbeat) {
    heartbeat->stopped = true;
    heartbeat->thread.join();
    heartbeat = nullptr;
  }
  if (storeSlot) storeSlot->reset();
  return nullptr;
}

napi_value storeSet(const Call& call) {
  std::string text = toText(call.env, call.at(1));
  getStore().set(toText(call.env, call.at(0)), std::vector<uint8_t>(text.begin(), text.end()));
  return nullptr;
}

/** storeGet(key): its text, or null if nobody has set it yet. */
napi_value storeGet(const Call& call) {
  std::string key = toText(call.env, call.at(0));
  if (!getStore().check({key})) return fromNull(call.env);
  auto bytes = getStore().get(key);
  return fromText(call.env, std::string(bytes.begin(), bytes.end()));
}

/** storeCount(key): the value of a counter. */
napi_value storeCount(const Call& call) {
  return fromDouble(call.env, static_cast<double>(getStore().add(toText(call.env, call.at(0)), 0)));
}

/** storeWait(key, timeout): its text, as soon as somebody has set it; null after the timeout. */
napi_value storeWait(const Call& call) {
  std::string key = toText(call.env, call.at(0));
  auto limit = toMilliseconds(call.env, call.at(1));
  bool isSet = waitUntil([&] { return getStore().check({key}); }, limit, "another process");
  if (!isSet) return fromNull(call.env);
  return storeGet(call);
}

/** groupOpen(backend, name, rank, size, host of the store, timeout): connects to the other ranks. */
napi_value groupOpen(const Call& call) {
  std::string backend = toText(call.env, call.at(0));
  std::string name = toText(call.env, call.at(1));
  int rank = static_cast<int>(toInteger(call.env, call.at(2)));
  int size = static_cast<int>(toInteger(call.env, call.at(3)));
  std::string host = toText(call.env, call.at(4));
  auto timeout = toMilliseconds(call.env, call.at(5));
  // A separate connection, because a store is locked while it waits.
  auto connect = [name, host, port = getStore().getPort(), timeout] {
    return c10::make_intrusive<c10d::PrefixStore>(name, connectStore(host, port, timeout));
  };
  if (backend == "gloo") {
    auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    // As in PyTorch: a network interface by name, or the address of this host's name.
    const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
    bool local = host == "127.0.0.1" || host == "localhost" || host == "::1";
    options->devices.push_back(interface ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                               : local   ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                                         : c10d::ProcessGroupGloo::createDefaultDevice());
    // The constructor waits for the others without an end, so it runs in a thread that can be left.
    struct Opening {
      std::atomic<bool> done{false};
      c10::intrusive_ptr<c10d::Backend> group;
      std::exception_ptr error;
    };
    auto opening = std::make_shared<Opening>();
    std::thread([opening, connect, rank, size, options] {
      try {
        opening->group = c10::make_intrusive<c10d::ProcessGroupGloo>(connect(), rank, size, options);
      } catch (...) {
        opening->error = std::current_exception();
      }
      opening->done = true;
    }).detach();
    if (!waitUntil([&] { return opening->done.load(); }, timeout, "the connections to the other processes"))
      throw std::runtime_error("timeout while connecting to the other processes");
    if (opening->error) std::rethrow_exception(opening->error);
    return fromDouble(call.env, table<c10d::Backend>().add(opening->group));
  }
#ifdef TEMPER_NCCL
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return fromDouble(call.env, table<c10d::Backend>().add(
                                  c10::make_intrusive<c10d::ProcessGroupNCCL>(connect(), rank, size, options)));
#else
  throw std::invalid_argument("this addon was built without NCCL");
#endif
}

napi_value groupClose(const Call& call) {
  table<c10d::Backend>().entries.erase(toInteger(call.env, call.at(0)));
  return nullptr;
}

/** A collective in progress. Results are copied back if a tensor was not contiguous. */
struct PendingWork : c10::intrusive_ptr_target {
  c10::intrusive_ptr<c10d::Work> work;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
};

napi_value addWork(napi_env env, c10::intrusive_ptr<c10d::Work> work,
                   std::vector<std::pair<at::Tensor, at::Tensor>> copies = {}) {
  auto pending = c10::make_intrusive<PendingWork>();
  pending->work = std::move(work);
  pending->copies = std::move(copies);
  return fromDouble(env, table<PendingWork>().add(std::move(pending)));
}

/** groupReduce(group, tensors): starts to add the tensors of all ranks in place. Returns a work. */
napi_value groupReduce(const Call& call) {
  auto tensors = toTensors(call.env, call.at(1));
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (auto& tensor : tensors) {
    if (tensor.is_contiguous()) continue;
    copies.emplace_back(tensor, tensor.contiguous());
    tensor = copies.back().second;
  }
  auto& group = table<c10d::Backend>().get(call.env, call.at(0));
  return addWork(call.env, group.allreduce_coalesced(tensors), std::move(copies));
}

/** groupBroadcast(group, tensor, root): starts to copy the tensor of one rank to all. */
napi_value groupBroadcast(const Call& call) {
  std::vector<at::Tensor> tensors{toTensor(call.env, call.at(1))};
  c10d::BroadcastOptions options;
  options.rootRank = toInteger(call.env, call.at(2));
  return addWork(call.env, table<c10d::Backend>().get(call.env, call.at(0)).broadcast(tensors, options));
}

/** groupGather(group, output [size, …], input): starts to collect the tensors of all ranks. */
napi_value groupGather(const Call& call) {
  at::Tensor output = toTensor(call.env, call.at(1));
  std::vector<std::vector<at::Tensor>> outputs{output.unbind(0)};
  std::vector<at::Tensor> inputs{toTensor(call.env, call.at(2))};
  return addWork(call.env, table<c10d::Backend>().get(call.env, call.at(0)).allgather(outputs, inputs));
}

/** workWait(work, timeout, on stream): waits for a collective; with NCCL, only the stream waits. */
napi_value workWait(const Call& call) {
  auto& works = table<PendingWork>();
  auto found = works.entries.find(toInteger(call.env, call.at(0)));
  if (found == works.entries.end()) throw std::invalid_argument("this collective was already waited for");
  auto pending = found->second;
  works.entries.erase(found);
  auto limit = toMilliseconds(call.env, call.at(1));
  bool onStream = toBoolean(call.env, call.at(2));
  auto lastCheck = std::chrono::steady_clock::now();
  auto isDone = [&] {
    if (pending->work->isCompleted()) return true;
    auto now = std::chrono::steady_clock::now();
    if (now - lastCheck > milliseconds(500)) {
      lastCheck = now;
      if (getStore().check({kFailedKey})) throw std::runtime_error("another process has failed");
    }
    return false;
  };
  if (!onStream && !waitUntil(isDone, limit, "the other processes"))
    throw std::runtime_error("timeout while waiting for the other processes");
  pending->work->wait();
  at::AutoDispatchBelowADInplaceOrView noAutograd;
  for (auto& [target, source] : pending->copies) target.copy_(source);
  return nullptr;
}

}  // namespace

void defineDistributed(napi_env env, napi_value exports) {
  define<storeOpen>(env, exports, "storeOpen");
  define<heartbeatStart>(env, exports, "heartbeatStart");
  define<storeClose>(env, exports, "storeClose");
  define<storeSet>(env, exports, "storeSet");
  define<storeGet>(env, exports, "storeGet");
  define<storeCount>(env, exports, "storeCount");
  define<storeWait>(env, exports, "storeWait");
  define<groupOpen>(env, exports, "groupOpen");
  define<groupClose>(env, exports, "groupClose");
  define<groupReduce>(env, exports, "groupReduce");
  define<groupBroadcast>(env, exports, "groupBroadcast");
  define<groupGather>(env, exports, "groupGather");
  define<workWait>(env, exports, "workWait");
#ifdef TEMPER_NCCL
  set(env, exports, "hasNccl", fromBoolean(env, true));
#endif
}
#else
/** libtorch 1.13 has other classes. Its addon trains in one process only. */
void defineDistributed(napi_env, napi_value) {}
#endif

}  // namespace temper
