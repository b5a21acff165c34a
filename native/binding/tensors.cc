// Creates tensors from typed arrays, reads, writes and describes them, and frees them.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "binding/exports.h"
#include "binding/slots.h"

namespace temper {
namespace {

struct Bytes {
  const char* data = nullptr;
  size_t size = 0;
  napi_typedarray_type type = napi_uint8_array;
};

Bytes toBytes(napi_env env, napi_value value) {
  bool typed = false;
  napi_is_typedarray(env, value, &typed);
  if (!typed) throwMismatch(env, value, "a typed array");
  // Node-API leaves the type as it is for kinds that it does not know, such as Float16Array.
  auto type = static_cast<napi_typedarray_type>(-1);
  size_t length = 0, offset = 0;
  void* data = nullptr;
  napi_value buffer;
  if (napi_get_typedarray_info(env, value, &type, &length, &data, &buffer, &offset) != napi_ok)
    throw std::invalid_argument("expected a typed array that can be read");
  bool detached = false;
  napi_is_detached_arraybuffer(env, buffer, &detached);
  if (detached) throw std::invalid_argument("expected a typed array, received one whose buffer was transferred away");
  size_t elementBytes;
  switch (type) {
    case napi_int8_array: case napi_uint8_array: case napi_uint8_clamped_array: elementBytes = 1; break;
    case napi_int16_array: case napi_uint16_array: elementBytes = 2; break;
    case napi_int32_array: case napi_uint32_array: case napi_float32_array: elementBytes = 4; break;
    case napi_float64_array: case napi_bigint64_array: case napi_biguint64_array: elementBytes = 8; break;
    default: throw std::invalid_argument("expected a typed array of a known kind, received another one (Float16Array?)");
  }
  return {static_cast<const char*>(data), length * elementBytes, type};
}

c10::ScalarType toDType(napi_env env, napi_value value) {
  auto code = toInteger(env, value, "a data type");
  if (code < 0 || code >= static_cast<int64_t>(c10::ScalarType::NumOptions))
    throw std::invalid_argument("unknown data type " + std::to_string(code));
  return static_cast<c10::ScalarType>(code);
}

/**
 * create(typed array, shape, dtype of the bytes, dtype of the tensor): creates a tensor from a
 * copy.
 */
napi_value create(const Call& call) {
  auto shape = toIntegers(call.env, call.at(1));
  auto stored = toDType(call.env, call.at(2)), target = toDType(call.env, call.at(3));
  // Read last: a getter in the shape can run code that transfers the buffer away.
  Bytes bytes = toBytes(call.env, call.at(0));
  double elements = 1;
  for (int64_t size : shape) {
    if (size < 0) throw std::invalid_argument("negative size " + std::to_string(size) + " in a shape");
    elements *= static_cast<double>(size);
  }
  if (elements * static_cast<double>(c10::elementSize(stored)) != static_cast<double>(bytes.size))
    throw std::invalid_argument("expected " + std::to_string(static_cast<uint64_t>(elements)) +
                                " elements for that shape, received " +
                                std::to_string(bytes.size / c10::elementSize(stored)));
  at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(stored));
  if (bytes.size) std::memcpy(tensor.data_ptr(), bytes.data, bytes.size);
  return fromDouble(call.env, keepTensor(stored == target ? tensor : tensor.to(target)));
}

/**
 * Returns true if the elements of a typed array match the dtype. A Uint8Array is raw memory and always
 * matches.
 */
bool matchesDType(napi_typedarray_type array, c10::ScalarType type) {
  switch (array) {
    case napi_uint8_array: return true;
    case napi_float32_array: return type == at::kFloat;
    case napi_float64_array: return type == at::kDouble;
    case napi_int32_array: return type == at::kInt;
    case napi_bigint64_array: return type == at::kLong;
    case napi_uint16_array: return type == at::kHalf || type == at::kBFloat16;
    default: return false;
  }
}

/**
 * write(handle, typed array): overwrites a CPU tensor. An Int32Array can also fill an int64 tensor.
 */
napi_value write(const Call& call) {
  at::Tensor tensor = toTensor(call.env, call.at(0));
  Bytes bytes = toBytes(call.env, call.at(1));
  if (!tensor.device().is_cpu() || !tensor.is_contiguous())
    throw std::invalid_argument("expected a contiguous CPU tensor");
  bool widened = bytes.type == napi_int32_array && tensor.scalar_type() == at::kLong;
  if (!widened && !matchesDType(bytes.type, tensor.scalar_type()))
    throw std::invalid_argument(std::string("a typed array of this kind cannot fill a tensor of type ") +
                                c10::toString(tensor.scalar_type()));
  size_t expected = widened ? tensor.nbytes() / 2 : tensor.nbytes();
  if (bytes.size != expected)
    throw std::invalid_argument("expected " + std::to_string(expected) + " bytes for that shape and type, received " +
                                std::to_string(bytes.size));
  if (widened) {
    auto* source = reinterpret_cast<const int32_t*>(bytes.data);
    std::copy(source, source + tensor.numel(), tensor.data_ptr<int64_t>());
  } else if (bytes.size) {
    std::memcpy(tensor.data_ptr(), bytes.data, bytes.size);
  }
  return nullptr;
}

/** read(handle, dtype): the values in that dtype as an ArrayBuffer, row-major. */
napi_value read(const Call& call) {
  at::AutoDispatchBelowAutograd noAutograd;
  at::Tensor tensor = toTensor(call.env, call.at(0)).detach().to(at::kCPU, toDType(call.env, call.at(1))).contiguous();
  void* data = nullptr;
  napi_value buffer;
  if (napi_create_arraybuffer(call.env, tensor.nbytes(), &data, &buffer) != napi_ok)
    throw std::runtime_error("no memory for " + std::to_string(tensor.nbytes()) + " bytes in JavaScript");
  if (tensor.nbytes()) std::memcpy(data, tensor.data_ptr(), tensor.nbytes());
  return buffer;
}

/** describe(handle): [dtype, requires grad, CUDA index or -1, ...shape]. */
napi_value describe(const Call& call) {
  const at::Tensor& tensor = toTensor(call.env, call.at(0));
  napi_value array;
  napi_create_array_with_length(call.env, 3 + tensor.dim(), &array);
  napi_set_element(call.env, array, 0, fromDouble(call.env, static_cast<int>(tensor.scalar_type())));
  napi_set_element(call.env, array, 1, fromDouble(call.env, tensor.requires_grad() ? 1 : 0));
  napi_set_element(call.env, array, 2, fromDouble(call.env, tensor.is_cuda() ? tensor.get_device() : -1));
  for (int64_t i = 0; i < tensor.dim(); i++)
    napi_set_element(call.env, array, 3 + i, fromDouble(call.env, static_cast<double>(tensor.size(i))));
  return array;
}

/** address(handle): the memory address of the data, for tests of alignment and sharing. */
napi_value address(const Call& call) {
  void* data = toTensor(call.env, call.at(0)).data_ptr();
  return fromDouble(call.env, static_cast<double>(reinterpret_cast<uintptr_t>(data)));
}

napi_value release(const Call& call) {
  uint32_t length = arrayLength(call.env, call.at(0), "an array of tensors");
  for (uint32_t i = 0; i < length; i++)
    freeTensor(toDouble(call.env, element(call.env, call.at(0), i), "a tensor"));
  return nullptr;
}

}  // namespace

void defineTensors(napi_env env, napi_value exports) {
  define<create>(env, exports, "create");
  define<write>(env, exports, "write");
  define<read>(env, exports, "read");
  define<describe>(env, exports, "describe");
  define<address>(env, exports, "address");
  define<release>(env, exports, "release");
}

}  // namespace temper
