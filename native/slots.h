// Tensors live in a table of slots. JavaScript holds numbers: a slot's index and the generation in which it was filled.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "js.h"

namespace temper {

/** Puts a tensor into a free slot and returns its handle. */
double keepTensor(at::Tensor tensor);

/** The tensor of a handle; throws where the handle was freed or never given out. */
const at::Tensor& tensorOf(double handle);

/** The tensor a JavaScript value stands for. */
const at::Tensor& toTensor(napi_env env, napi_value value);

std::vector<at::Tensor> toTensors(napi_env env, napi_value value);

/** Empties the slot. Freed twice is an error, as is any other use of a freed handle. */
void freeTensor(double handle);

size_t liveTensors();

}  // namespace temper
