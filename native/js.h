// Small helpers over Node's C API: every entry point runs inside `guarded`, so that no C++ exception can leave the addon.
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

/** What libtorch says, without its C++ backtrace and without the lists of registered kernels that follow the first paragraph. */
inline std::string plainMessage(const std::string& text) {
  std::string message = text.substr(0, text.find("\nException raised from"));
  message = message.substr(0, message.find("\n\n"));
  message = message.substr(0, message.find("(Could this error message be improved?"));
  while (!message.empty() && (message.back() == '\n' || message.back() == ' ')) message.pop_back();
  return message.size() > 2000 ? message.substr(0, 2000) + " …" : message;
}

inline std::string currentMessage() {
  try {
    throw;
  } catch (const c10::Error& error) {
    return plainMessage(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return plainMessage(error.what());
  } catch (...) {
    return "unknown native error";
  }
}

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

inline napi_valuetype kindOf(napi_env env, napi_value value) {
  napi_valuetype kind = napi_undefined;
  napi_typeof(env, value, &kind);
  return kind;
}

inline const char* kindName(napi_env env, napi_value value) {
  bool array = false;
  napi_is_array(env, value, &array);
  if (array) return "an array";
  switch (kindOf(env, value)) {
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

[[noreturn]] inline void mismatch(napi_env env, napi_value value, const std::string& expected) {
  throw std::invalid_argument("expected " + expected + ", received " + kindName(env, value));
}

inline bool isNothing(napi_env env, napi_value value) {
  auto kind = kindOf(env, value);
  return kind == napi_undefined || kind == napi_null;
}

inline double toDouble(napi_env env, napi_value value, const char* expected = "a number") {
  double number = 0;
  if (napi_get_value_double(env, value, &number) != napi_ok) mismatch(env, value, expected);
  return number;
}

inline int64_t toInteger(napi_env env, napi_value value, const char* expected = "an integer") {
  double number = toDouble(env, value, expected);
  if (!(std::abs(number) <= 9007199254740991.0) || number != std::floor(number))
    throw std::invalid_argument(std::string("expected ") + expected + ", received " + std::to_string(number));
  return static_cast<int64_t>(number);
}

inline bool toBoolean(napi_env env, napi_value value) {
  bool truth = false;
  if (napi_get_value_bool(env, value, &truth) != napi_ok) mismatch(env, value, "a boolean");
  return truth;
}

inline std::string toText(napi_env env, napi_value value) {
  size_t length = 0;
  if (napi_get_value_string_utf8(env, value, nullptr, 0, &length) != napi_ok) mismatch(env, value, "a string");
  std::string text(length, '\0');
  napi_get_value_string_utf8(env, value, text.data(), length + 1, &length);
  return text;
}

inline uint32_t arrayLength(napi_env env, napi_value value, const char* expected) {
  bool array = false;
  napi_is_array(env, value, &array);
  if (!array) mismatch(env, value, expected);
  uint32_t length = 0;
  napi_get_array_length(env, value, &length);
  return length;
}

inline napi_value element(napi_env env, napi_value array, uint32_t index) {
  napi_value value;
  // An element may be a getter, and that may throw; its own error is the one to show.
  if (napi_get_element(env, array, index, &value) != napi_ok) throw std::runtime_error("element " + std::to_string(index) + " could not be read");
  return value;
}

inline std::vector<int64_t> toIntegers(napi_env env, napi_value value) {
  uint32_t length = arrayLength(env, value, "an array of integers");
  std::vector<int64_t> numbers;  // grows as it is filled: an array's length may be a lie of four thousand million holes
  for (uint32_t i = 0; i < length; i++) numbers.push_back(toInteger(env, element(env, value, i)));
  return numbers;
}

inline napi_value fromDouble(napi_env env, double number) {
  napi_value value;
  napi_create_double(env, number, &value);
  return value;
}

inline napi_value fromBoolean(napi_env env, bool truth) {
  napi_value value;
  napi_get_boolean(env, truth, &value);
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

inline void set(napi_env env, napi_value object, const char* name, napi_value value) { napi_set_named_property(env, object, name, value); }

/** Runs `body` and turns whatever it throws into a JavaScript error. */
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

/** The napi callback of a function `napi_value (const Call&)`. */
template <napi_value (*function)(const Call&)>
napi_value entry(napi_env env, napi_callback_info info) {
  return guarded(env, [&] { return function(Call(env, info)); });
}

template <napi_value (*function)(const Call&)>
void define(napi_env env, napi_value exports, const char* name) {
  napi_value value;
  napi_create_function(env, name, NAPI_AUTO_LENGTH, entry<function>, nullptr, &value);
  set(env, exports, name, value);
}

}  // namespace temper
