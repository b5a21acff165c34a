// Helpers over Node's C API. Every entry point runs inside `guarded`, so no C++ exception leaves
// the addon.
#pragma once
#define NAPI_VERSION 8
#include <node_api.h>

#include <c10/util/Exception.h>

#include <cmath>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace temper {

/**
 * Shortens a libtorch message: no C++ backtrace, and no lists of registered kernels after the first
 * paragraph.
 */
inline std::string shortenMessage(const std::string& text) {
  std::string message = text.substr(0, text.find("\nException raised from"));
  message = message.substr(0, message.find("\n\n"));
  message = message.substr(0, message.find("(Could this error message be improved?"));
  while (!message.empty() && (message.back() == '\n' || message.back() == ' ')) message.pop_back();
  return message.size() > 2000 ? message.substr(0, 2000) + " …" : message;
}

/** The message of the exception that is being handled. */
inline std::string currentMessage() {
  try {
    throw;
  } catch (const c10::Error& error) {
    return shortenMessage(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return shortenMessage(error.what());
  } catch (...) {
    return "unknown native error";
  }
}

/** The arguments of a call from JavaScript. */
struct Call {
  napi_env env;
  size_t count = 0;
  napi_value values[40];
  void* data = nullptr;

  Call(napi_env environment, napi_callback_info info) : env(environment) {
    count = 40;
    napi_get_cb_info(env, info, &count, values, nullptr, &data);
    if (count > 40) count = 40;
  }
  napi_value at(size_t index) const {
    if (index < count) return values[index];
    napi_value undefined;
    napi_get_undefined(env, &undefined);
    return undefined;
  }
};

inline napi_valuetype getKind(napi_env env, napi_value value) {
  napi_valuetype kind = napi_undefined;
  napi_typeof(env, value, &kind);
  return kind;
}

inline const char* getKindName(napi_env env, napi_value value) {
  bool array = false;
  napi_is_array(env, value, &array);
  if (array) return "an array";
  switch (getKind(env, value)) {
    case napi_undefined: return "undefined";
    case napi_null: return "null";
    case napi_boolean: return "a boolean";
    case napi_number: return "a number";
    case napi_string: return "a string";
    case napi_symbol: return "a symbol";
    case napi_function: return "a function";
    case napi_bigint: return "a bigint";
    default: return "an object";
  }
}

[[noreturn]] inline void throwMismatch(napi_env env, napi_value value, const std::string& expected) {
  throw std::invalid_argument("expected " + expected + ", received " + getKindName(env, value));
}

/** True for undefined and null. */
inline bool isNothing(napi_env env, napi_value value) {
  auto kind = getKind(env, value);
  return kind == napi_undefined || kind == napi_null;
}

inline double toDouble(napi_env env, napi_value value, const char* expected = "a number") {
  double number = 0;
  if (napi_get_value_double(env, value, &number) != napi_ok) throwMismatch(env, value, expected);
  return number;
}

inline int64_t toInteger(napi_env env, napi_value value, const char* expected = "an integer") {
  double number = toDouble(env, value, expected);
  if (!(std::abs(number) <= 9007199254740991.0) || number != std::floor(number))
    throw std::invalid_argument(std::string("expected ") + expected + ", received " + std::to_string(number));
  return static_cast<int64_t>(number);
}

inline bool toBoolean(napi_env env, napi_value value) {
  bool result = false;
  if (napi_get_value_bool(env, value, &result) != napi_ok) throwMismatch(env, value, "a boolean");
  return result;
}

inline std::string toText(napi_env env, napi_value value) {
  size_t length = 0;
  if (napi_get_value_string_utf8(env, value, nullptr, 0, &length) != napi_ok) throwMismatch(env, value, "a string");
  std::string text(length, '\0');
  napi_get_value_string_utf8(env, value, text.data(), length + 1, &length);
  return text;
}

inline uint32_t arrayLength(napi_env env, napi_value value, const char* expected) {
  bool array = false;
  napi_is_array(env, value, &array);
  if (!array) throwMismatch(env, value, expected);
  uint32_t length = 0;
  napi_get_array_length(env, value, &length);
  return length;
}

inline napi_value element(napi_env env, napi_value array, uint32_t index) {
  napi_value value;
  // An element may be a getter that throws. JavaScript then sees the error of the getter.
  if (napi_get_element(env, array, index, &value) != napi_ok)
    throw std::runtime_error("element " + std::to_string(index) + " could not be read");
  return value;
}

inline std::vector<int64_t> toIntegers(napi_env env, napi_value value) {
  uint32_t length = arrayLength(env, value, "an array of integers");
  std::vector<int64_t> numbers;  // not reserved: a sparse array may claim four billion elements
  for (uint32_t i = 0; i < length; i++) numbers.push_back(toInteger(env, element(env, value, i)));
  return numbers;
}

inline napi_value fromDouble(napi_env env, double number) {
  napi_value value;
  napi_create_double(env, number, &value);
  return value;
}

inline napi_value fromBoolean(napi_env env, bool boolean) {
  napi_value value;
  napi_get_boolean(env, boolean, &value);
  return value;
}

inline napi_value fromText(napi_env env, const std::string& text) {
  napi_value value;
  napi_create_string_utf8(env, text.c_str(), text.size(), &value);
  return value;
}

inline napi_value newObject(napi_env env) {
  napi_value value;
  napi_create_object(env, &value);
  return value;
}

inline napi_value fromNull(napi_env env) {
  napi_value value;
  napi_get_null(env, &value);
  return value;
}

inline void set(napi_env env, napi_value object, const char* name, napi_value value) {
  napi_set_named_property(env, object, name, value);
}

/** Runs `body` and turns any exception into a JavaScript error. */
template <typename Body>
napi_value guarded(napi_env env, Body&& body) {
  try {
    return body();
  } catch (...) {
    bool pending = false;
    napi_is_exception_pending(env, &pending);
    if (!pending) napi_throw_error(env, nullptr, currentMessage().c_str());
    return nullptr;
  }
}

/** The Node-API callback for a function `napi_value (const Call&)`. */
template <napi_value (*function)(const Call&)>
napi_value entry(napi_env env, napi_callback_info info) {
  return guarded(env, [&] { return function(Call(env, info)); });
}

/** Exports a function under a name. */
template <napi_value (*function)(const Call&)>
void define(napi_env env, napi_value exports, const char* name) {
  napi_value value;
  napi_create_function(env, name, NAPI_AUTO_LENGTH, entry<function>, nullptr, &value);
  set(env, exports, name, value);
}

}  // namespace temper
