// Process groups of PyTorch's c10d: Gloo for CPU tensors and NCCL for GPU tensors.
// The definition makes libtorch's headers declare Gloo.
#define USE_C10D_GLOO 1
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#if defined(TEMPER_CUDA) && __has_include(<nccl.h>)
#define TEMPER_NCCL 1
#define USE_C10D_NCCL 1
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "binding/exports.h"
#include "binding/slots.h"
#include "distributed/distributed.h"

namespace temper {

namespace {

/** Groups and works by number. Never destroyed: libtorch's statics may end before. */
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
double addWork(c10::intrusive_ptr<c10d::Work> work, std::vector<std::pair<at::Tensor, at::Tensor>> copies = {}) {
  auto pending = c10::make_intrusive<PendingWork>();
  pending->work = std::move(work);
  pending->copies = std::move(copies);
  return table<PendingWork>().add(std::move(pending));
}

/**
 * Gloo's threads run until the process ends. If they still work on a collective, the destructors of libtorch's globals
 * would take away what they use, so leave without them.
 */
void exitWithoutDestructors() {
#ifdef __GLIBC__
  auto leave = [](int status, void*) {
    std::fflush(nullptr);
    _exit(status);
  };
  [[maybe_unused]] static const int registered = on_exit(leave, nullptr);
#endif
}

/** groupOpen(backend, rank, size, host of the store, timeout): connects to the other ranks. */
napi_value groupOpen(const Call& call) {
  std::string backend = toText(call.env, call.at(0));
  int rank = static_cast<int>(toInteger(call.env, call.at(1)));
  int size = static_cast<int>(toInteger(call.env, call.at(2)));
  std::string host = toText(call.env, call.at(3));
  auto timeout = toMilliseconds(call.env, call.at(4));
  // A separate connection, because a store is locked while it waits.
  auto connect = [backend, host, port = getStore().getPort(), timeout] {
    return c10::make_intrusive<c10d::PrefixStore>(toKey(backend), connectStore(host, port, timeout));
  };
  if (backend == "gloo") {
    exitWithoutDestructors();
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

/** groupReduce(group, tensors): starts to add the tensors of all ranks in place. Returns a work. */
napi_value groupReduce(const Call& call) {
  auto tensors = toTensors(call.env, call.at(1));
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (auto& tensor : tensors) {
    if (tensor.is_contiguous()) continue;
    copies.emplace_back(tensor, tensor.contiguous());
    tensor = copies.back().second;
  }
  auto group = table<c10d::Backend>().get(call.env, call.at(0));
  return fromDouble(call.env, addWork(group->allreduce_coalesced(tensors), std::move(copies)));
}

/** groupBroadcast(group, tensor): starts to copy the tensor of rank 0 to all. */
napi_value groupBroadcast(const Call& call) {
  std::vector<at::Tensor> tensors{toTensor(call.env, call.at(1))};
  auto group = table<c10d::Backend>().get(call.env, call.at(0));
  return fromDouble(call.env, addWork(group->broadcast(tensors)));
}

/** groupGather(group, output [size, …], input): starts to collect the tensors of all ranks. */
napi_value groupGather(const Call& call) {
  at::Tensor output = toTensor(call.env, call.at(1));
  std::vector<std::vector<at::Tensor>> outputs{output.unbind(0)};
  std::vector<at::Tensor> inputs{toTensor(call.env, call.at(2))};
  auto group = table<c10d::Backend>().get(call.env, call.at(0));
  return fromDouble(call.env, addWork(group->allgather(outputs, inputs)));
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
      if (getStore().check({toKey(kFailedKey)})) throw std::runtime_error("another process has failed");
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

void defineProcessGroup(napi_env env, napi_value exports) {
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

}  // namespace temper
