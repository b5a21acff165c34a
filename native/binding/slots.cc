// The table of tensors behind the handles of JavaScript.
#include "binding/slots.h"

namespace temper {
namespace {

struct Slot {
  at::Tensor tensor;
  uint32_t generation = 1;
  bool live = false;
};

// handle = generation * 2^32 + index, which is exact in a double up to generation 2^20. A slot that
// has used all generations is not filled again, so no handle ever refers to another tensor.
constexpr double kGenerationUnit = 4294967296.0;
constexpr uint32_t kGenerations = 1u << 20;

// Never destroyed: at process exit libtorch's statics may be destroyed before ours.
std::vector<Slot>& slots() {
  static auto* table = new std::vector<Slot>();
  return *table;
}
std::vector<uint32_t>& freeSlots() {
  static auto* list = new std::vector<uint32_t>();
  return *list;
}
size_t live = 0;

Slot& getSlot(double handle) {
  if (!(handle >= kGenerationUnit) || handle >= kGenerationUnit * kGenerations || handle != std::floor(handle))
    throw std::invalid_argument("not a tensor handle");
  auto generation = static_cast<uint32_t>(handle / kGenerationUnit);
  auto index = static_cast<uint32_t>(handle - generation * kGenerationUnit);
  if (index >= slots().size()) throw std::invalid_argument("not a tensor handle");
  Slot& slot = slots()[index];
  if (!slot.live || slot.generation != generation)
    throw std::invalid_argument("the tensor was freed. Use it inside the scope that created it, or keep() it.");
  return slot;
}

}  // namespace

double keepTensor(at::Tensor tensor) {
  uint32_t index;
  if (freeSlots().empty()) {
    index = static_cast<uint32_t>(slots().size());
    slots().emplace_back();
  } else {
    index = freeSlots().back();
    freeSlots().pop_back();
  }
  Slot& slot = slots()[index];
  slot.tensor = std::move(tensor);
  slot.live = true;
  live++;
  return slot.generation * kGenerationUnit + index;
}

const at::Tensor& getTensor(double handle) { return getSlot(handle).tensor; }

const at::Tensor& toTensor(napi_env env, napi_value value) { return getTensor(toDouble(env, value, "a tensor")); }

std::vector<at::Tensor> toTensors(napi_env env, napi_value value) {
  uint32_t length = arrayLength(env, value, "an array of tensors");
  std::vector<at::Tensor> tensors;
  for (uint32_t i = 0; i < length; i++) tensors.push_back(toTensor(env, element(env, value, i)));
  return tensors;
}

void freeTensor(double handle) {
  Slot& slot = getSlot(handle);
  at::Tensor released = std::move(slot.tensor);
  slot.tensor = at::Tensor();
  slot.live = false;
  live--;
  if (++slot.generation < kGenerations) freeSlots().push_back(static_cast<uint32_t>(&slot - slots().data()));
}

size_t liveTensors() { return live; }

}  // namespace temper
