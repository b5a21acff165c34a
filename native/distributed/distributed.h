// What the parts of the addon for several processes share.
#pragma once
#define USE_C10D_GLOO 1
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "binding/js.h"

namespace temper {

using std::chrono::milliseconds;

/** Groups, works and reducers by number. Never destroyed: libtorch's statics may end before. */
template <typename T>
struct Table {
  std::map<int64_t, c10::intrusive_ptr<T>> entries;
  int64_t next = 1;
  double add(c10::intrusive_ptr<T> entry) {
    entries.emplace(next, std::move(entry));
    return static_cast<double>(next++);
  }
  c10::intrusive_ptr<T> get(napi_env env, napi_value id) {
    auto found = entries.find(toInteger(env, id));
    if (found == entries.end()) throw std::invalid_argument("the process group is closed");
    return found->second;
  }
};

template <typename T>
Table<T>& table() {
  static auto* entries = new Table<T>();
  return *entries;
}

/** A collective in progress. Results are copied back if a tensor was not contiguous. */
struct PendingWork : c10::intrusive_ptr_target {
  c10::intrusive_ptr<c10d::Work> work;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
};

/** Gives a collective a number, with which JavaScript waits for it. */
double addWork(c10::intrusive_ptr<c10d::Work> work, std::vector<std::pair<at::Tensor, at::Tensor>> copies = {});

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

/** Waits until `isDone`. Returns false at the time limit, and throws at a repeated signal. */
bool waitUntil(const std::function<bool()>& isDone, milliseconds limit, const char* what);

}  // namespace temper
