// The store where processes meet (c10d::TCPStore), and the socket at which it listens.
#include <c10/util/Logging.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cerrno>
#include <cstring>

#include "binding/exports.h"
#include "distributed/distributed.h"

namespace temper {

const std::string kFailedKey = "failed";

namespace {

c10::intrusive_ptr<c10d::TCPStore>* storeSlot = nullptr;
std::string* keyPrefix = nullptr;

/** What is read from the store is ours and short. Others may have written more. */
constexpr size_t kMaxValueBytes = 1 << 20;

bool isLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == 127;
  return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

/** Listens at one address. Returns -1 if that is not possible, with the reason in errno. */
int listenAtAddress(const addrinfo& address) {
  int file = socket(address.ai_family, address.ai_socktype, address.ai_protocol);
  if (file < 0) return -1;
  int on = 1;
  fcntl(file, F_SETFD, FD_CLOEXEC);
  setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(file, address.ai_addr, address.ai_addrlen) == 0 && listen(file, SOMAXCONN) == 0) return file;
  int reason = errno;
  close(file);
  errno = reason;
  return -1;
}

/**
 * Opens a socket that listens at the address of a host only, because c10d itself would listen on all interfaces. Returns
 * -1 if the host has a name, but only addresses that other hosts cannot reach: then c10d must do it.
 */
int listenAtHost(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found))
    throw std::runtime_error(host + ": " + gai_strerror(code));
  bool isLocal = host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
  bool isReachable = false;
  int file = -1, reason = 0;
  for (addrinfo* each = found; each && file < 0; each = each->ai_next) {
    if (isLoopback(each->ai_addr) != isLocal) continue;
    isReachable = true;
    file = listenAtAddress(*each);
    if (file < 0) reason = errno;
  }
  freeaddrinfo(found);
  if (file < 0 && isReachable) throw std::runtime_error(std::strerror(reason));
  return file;
}

uint16_t readPort(int file) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(file, reinterpret_cast<sockaddr*>(&address), &size) != 0) throw std::runtime_error(std::strerror(errno));
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

}  // namespace

std::string toKey(const std::string& name) { return keyPrefix ? *keyPrefix + name : name; }

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

/**
 * storeOpen(host, port, is server, timeout, secret): connects to the store, or also hosts it. The secret is part of every
 * key, so that others who can connect cannot guess them.
 */
napi_value storeOpen(const Call& call) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(toInteger(call.env, call.at(1)));
  options.isServer = toBoolean(call.env, call.at(2));
  options.waitWorkers = false;
  options.timeout = toMilliseconds(call.env, call.at(3));
  // c10d logs C++ stack traces of errors that JavaScript reports anyway.
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", 0);
  c10::initLogging();
  if (!keyPrefix) keyPrefix = new std::string();
  std::string secret = toText(call.env, call.at(4));
  *keyPrefix = secret.empty() ? "" : secret + "/";
  std::string host = toText(call.env, call.at(0));
  if (options.isServer) {
    int file = listenAtHost(host, options.port);
    if (file >= 0) {
      options.port = readPort(file);
      options.masterListenFd = file;
    }
  }
  if (!storeSlot) storeSlot = new c10::intrusive_ptr<c10d::TCPStore>();
  auto opened = c10::make_intrusive<c10d::TCPStore>(host, options);
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
  getStore().set(toKey(toText(call.env, call.at(0))), std::vector<uint8_t>(text.begin(), text.end()));
  return nullptr;
}

/** storeGet(key): its text, or null if nobody has set it yet. */
napi_value storeGet(const Call& call) {
  std::string key = toKey(toText(call.env, call.at(0)));
  if (!getStore().check({key})) return fromNull(call.env);
  auto bytes = getStore().get(key);
  if (bytes.size() > kMaxValueBytes) throw std::runtime_error("the store has a value that no process of this run wrote");
  return fromText(call.env, std::string(bytes.begin(), bytes.end()));
}

/** storeCount(key): the value of a counter. */
napi_value storeCount(const Call& call) {
  return fromDouble(call.env, static_cast<double>(getStore().add(toKey(toText(call.env, call.at(0))), 0)));
}

/** storeWait(key, timeout): its text, as soon as somebody has set it; null after the timeout. */
napi_value storeWait(const Call& call) {
  std::string key = toKey(toText(call.env, call.at(0)));
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
