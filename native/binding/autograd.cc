// Gradients with respect to chosen inputs.
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "binding/exports.h"
#include "binding/slots.h"

namespace temper {
namespace {

/** Converts a list that may contain nulls. A missing output gradient means ones. */
std::vector<at::Tensor> toOptionalTensors(napi_env env, napi_value value) {
  if (isNothing(env, value)) return {};
  uint32_t length = arrayLength(env, value, "an array of tensors");
  std::vector<at::Tensor> tensors;
  for (uint32_t i = 0; i < length; i++) {
    napi_value item = element(env, value, i);
    tensors.push_back(isNothing(env, item) ? at::Tensor() : toTensor(env, item));
  }
  return tensors;
}

/**
 * grad(outputs, inputs, outputGradients | null, retainGraph, createGraph, allowUnused).
 * Returns a handle or null per input.
 */
napi_value gradients(const Call& call) {
  napi_env env = call.env;
  auto results = torch::autograd::grad(toTensors(env, call.at(0)), toTensors(env, call.at(1)),
                                       toOptionalTensors(env, call.at(2)), toBoolean(env, call.at(3)),
                                       toBoolean(env, call.at(4)), toBoolean(env, call.at(5)));
  napi_value array;
  napi_create_array_with_length(env, results.size(), &array);
  for (size_t i = 0; i < results.size(); i++) {
    napi_set_element(env, array, i, results[i].defined() ? fromDouble(env, keepTensor(results[i])) : fromNull(env));
  }
  return array;
}

/** setGradEnabled(on): turns gradient recording on or off and returns the previous setting. */
napi_value setGradEnabled(const Call& call) {
  bool before = c10::GradMode::is_enabled();
  c10::GradMode::set_enabled(toBoolean(call.env, call.at(0)));
  return fromBoolean(call.env, before);
}

}  // namespace

void defineAutograd(napi_env env, napi_value exports) {
  define<gradients>(env, exports, "grad");
  define<setGradEnabled>(env, exports, "setGradEnabled");
}

}  // namespace temper
