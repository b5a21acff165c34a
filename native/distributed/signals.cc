// Counts signals while JavaScript waits for another process.
#include "distributed/signals.h"

#include <atomic>

namespace temper {
namespace {

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

}  // namespace

SignalCounter::SignalCounter() {
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

SignalCounter::~SignalCounter() {
  for (int i = 0; i < 3; i++)
    if (installed_[i]) sigaction(kSignals[i], &previousActions[i], nullptr);
}

int SignalCounter::count() const { return signalCount; }

}  // namespace temper
