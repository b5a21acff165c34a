// Signs of life of the processes, and waits that end if another process dies.
#include <atomic>
#include <thread>

#include "distributed/distributed.h"

namespace temper {
namespace {

/**
 * Counts in the store once per second, so that the others know that this process lives, and
 * watches the counts of the others.
 */
struct Heartbeat {
  std::atomic<bool> stopped{false};
  /** True if the store has ended, or another process has not counted for a while. */
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
      int64_t value = store.add(toKey("alive/" + std::to_string(other)), other == rank ? 1 : 0);
      if (value != counts[other].value) counts[other] = {value, now};
      // A process that has not started yet is waited for elsewhere. One that has left is missed by nobody.
      bool hasLeft = now - counts[other].changed > kSilence && store.check({toKey("left/" + std::to_string(other))});
      if (value > 0 && now - counts[other].changed > kSilence && !hasLeft) self.lost = true;
    }
  }
}

}  // namespace

void startHeartbeat(const std::string& host, uint16_t port, int64_t rank, int64_t size) {
  auto connected = connectStore(host, port, kSilence);
  heartbeat = new Heartbeat();
  heartbeat->thread = std::thread([connected, rank, size, self = heartbeat] {
    try {
      beat(*self, *connected, rank, size);
    } catch (...) {
      self->lost = true;
    }
  });
}

void stopHeartbeat() {
  if (!heartbeat) return;
  heartbeat->stopped = true;
  heartbeat->thread.join();
  heartbeat = nullptr;
}

bool waitUntil(const std::function<bool()>& isDone, milliseconds limit, const char* what) {
  auto start = std::chrono::steady_clock::now();
  for (int64_t turn = 0; !isDone(); turn++) {
    if (heartbeat && heartbeat->lost) throw std::runtime_error(std::string("no sign of life while waiting for ") + what);
    if (std::chrono::steady_clock::now() - start > limit) return false;
    // A reduction of a small tensor takes about 100 us, and a large one needs the cores itself.
    std::this_thread::sleep_for(std::chrono::microseconds(turn < 200 ? 20 : 1000));
  }
  return true;
}

}  // namespace temper
