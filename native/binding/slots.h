// Tensors are stored in a table of slots. JavaScript holds a number: the index of the slot and the
// generation in which it was filled.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "binding/js.h"

namespace temper {

/** Puts a tensor into a free slot and returns its handle. */
double keepTensor(at::Tensor tensor);

/** The tensor of a handle. Throws if the handle was freed or never existed. */
const at::Tensor& getTensor(double handle);

/** The tensor whose handle is this JavaScript number. */
const at::Tensor& toTensor(napi_env env, napi_value value);

std::vector<at::Tensor> toTensors(napi_env env, napi_value value);

/** Empties the slot. Freeing twice is an error, like any other use of a freed handle. */
void freeTensor(double handle);

size_t liveTensors();

}  // namespace temper
