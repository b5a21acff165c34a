// The store where processes meet.
#include <c10/util/Logging.h>

#include <cstdlib>

#include "binding/exports.h"
#include "distributed/distributed.h"

namespace temper {

const std::string kFailedKey = "failed";

namespace {

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

c10d::TCPStore& getStore() {
  if (!storeSlot || !*storeSlot) throw std::invalid_argument("the store is closed");
  return **storeSlot;
}

namespace {

/** heartbeatStart(host, port, rank, size): starts to count and to watch. */
napi_value heartbeatStart(const Call& call) {
  startHeartbeat(toText(call.env, call.at(0)), static_cast<uint16_t>(toInteger(call.env, call.at(1))),
                 toInteger(call.env, call.at(2)), toInteger(call.env, call.at(3)));
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
  stopHeartbeat();
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

}  // namespace temper
