// Counts signals while JavaScript waits for another process, because its own handlers cannot run then.
#pragma once
#include <csignal>

namespace temper {

/**
 * Counts signals while it exists. The first one is passed on to the handler of JavaScript as usual, which runs after the
 * wait; a second one should end the wait. A signal that would end the process still does.
 */
class SignalCounter {
 public:
  SignalCounter();
  ~SignalCounter();
  SignalCounter(const SignalCounter&) = delete;
  SignalCounter& operator=(const SignalCounter&) = delete;

  int count() const;

 private:
  bool installed_[3] = {};
};

}  // namespace temper
