// The store where processes meet, the signs of life in it, and waits that end if another process dies.
#include "distributed.h"
#include "exports.h"

#if TORCH_VERSION_MAJOR >= 2
#include <c10/util/Logging.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>
#endif

namespace temper {
#if TORCH_VERSION_MAJOR >= 2
const std::string kFailedKey = "failed";

namespace {

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

c10::intrusive_ptr<c10d::TCPStore>* storeSlot = nullptr;

}  // namespace

milliseconds toMilliseconds(napi_env env, napi_value seconds) {
  return milliseconds(static_cast<int64_t>(1000 * toDouble(env, seconds, "a time in seconds")));
}

c10::intrusive_ptr<c10d::TCPStore> connectStore(const std::string& host, uint16_t port, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.timeout = timeout;
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

bool waitUntil(const std::function<bool()>& isDone, milliseconds limit, const char* what) {
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

c10d::TCPStore& getStore() {
  if (!storeSlot || !*storeSlot) throw std::invalid_argument("the store is closed");
  return **storeSlot;
}

namespace {

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

}  // namespace

void defineStore(napi_env env, napi_value exports) {
  define<storeOpen>(env, exports, "storeOpen");
  define<heartbeatStart>(env, exports, "heartbeatStart");
  define<storeClose>(env, exports, "storeClose");
  define<storeSet>(env, exports, "storeSet");
  define<storeGet>(env, exports, "storeGet");
  define<storeCount>(env, exports, "storeCount");
  define<storeWait>(env, exports, "storeWait");
}
#else
void defineStore(napi_env, napi_value) {}
#endif

}  // namespace temper
