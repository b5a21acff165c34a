// What the parts of the addon for several processes share.
#pragma once
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <functional>
#include <string>

#include "binding/js.h"

namespace temper {

using std::chrono::milliseconds;

milliseconds toMilliseconds(napi_env env, napi_value seconds);

/** A rank that fails sets this key, so that the others do not wait for it. */
extern const std::string kFailedKey;

/** The key of a name in the store. It contains the secret of the processes. */
std::string toKey(const std::string& name);

/** The store of this process. Throws if it is closed. */
c10d::TCPStore& getStore();

c10::intrusive_ptr<c10d::TCPStore> connectStore(const std::string& host, uint16_t port, milliseconds timeout);

/** Counts in the store once per second from now on, and watches the counts of the other ranks. */
void startHeartbeat(const std::string& host, uint16_t port, int64_t rank, int64_t size);
void stopHeartbeat();

/** Waits until `isDone`. Returns false at the time limit, and throws if another process is lost. */
bool waitUntil(const std::function<bool()>& isDone, milliseconds limit, const char* what);

}  // namespace temper
