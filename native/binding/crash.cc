// Says which signal has ended the process, and what to do. A shell would print "Illegal instruction".
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "binding/exports.h"

namespace temper {
namespace {

struct CrashSignal {
  int number;
  const char* name;
  struct sigaction previous;
};
CrashSignal crashSignals[] = {
    {SIGILL, "SIGILL", {}}, {SIGSEGV, "SIGSEGV", {}}, {SIGBUS, "SIGBUS", {}}, {SIGFPE, "SIGFPE", {}}};
bool areHandled = false;

// A signal handler must not allocate memory, so the message is prepared.
char textBefore[200] = "";
char textAfter[400] = "";

void writeMessage(const char* name) {
  char message[sizeof(textBefore) + sizeof(textAfter) + 16];
  size_t size = 0;
  for (const char* part : {static_cast<const char*>(textBefore), name, static_cast<const char*>(textAfter)}) {
    size_t length = strlen(part);
    memcpy(message + size, part, length);
    size += length;
  }
  // If stderr is closed, nobody can be told.
  if (write(STDERR_FILENO, message, size) < 0) return;
}

void handleCrash(int number, siginfo_t* info, void* context) {
  for (const auto& crash : crashSignals) {
    if (crash.number != number) continue;
    // Node's handler turns the faults of WebAssembly into exceptions and continues. For every other
    // fault it restores the default action and raises the signal, which waits until we return.
    if (crash.previous.sa_flags & SA_SIGINFO) {
      crash.previous.sa_sigaction(number, info, context);
      struct sigaction current;
      sigaction(number, nullptr, &current);
      if ((current.sa_flags & SA_SIGINFO) && current.sa_sigaction == handleCrash) return;
    }
    writeMessage(crash.name);
    signal(number, SIG_DFL);
    raise(number);
  }
}

void copyText(char* target, size_t size, const std::string& text) {
  strncpy(target, text.c_str(), size - 1);
  target[size - 1] = '\0';
}

/** reportCrashes(before, after): the message is `before`, the name of the signal and `after`. */
napi_value reportCrashes(const Call& call) {
  copyText(textBefore, sizeof(textBefore), toText(call.env, call.at(0)));
  copyText(textAfter, sizeof(textAfter), toText(call.env, call.at(1)));
  if (areHandled) return nullptr;
  areHandled = true;
  for (auto& crash : crashSignals) {
    struct sigaction action {};
    action.sa_sigaction = handleCrash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(crash.number, &action, &crash.previous);
  }
  return nullptr;
}

}  // namespace

void defineCrashReports(napi_env env, napi_value exports) { define<reportCrashes>(env, exports, "reportCrashes"); }

}  // namespace temper
