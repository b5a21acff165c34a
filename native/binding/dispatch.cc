// Calls any libtorch operator by name. The operator's schema says how to convert the JavaScript
// arguments.
#include "binding/exports.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/ScalarType.h>
#include <torch/version.h>

#include <map>
#include <memory>
#include <sstream>

#include "binding/slots.h"

namespace temper {
namespace {

using c10::IValue;
using c10::TypeKind;
using c10::TypePtr;

struct Operator {
  c10::OperatorHandle handle;
  std::string name;
  bool inPlace;  // writes into its first argument and returns it, so JavaScript already has the result
  bool fused;    // may be one of libtorch's fused optimizers, which do not check their arguments
  std::vector<int64_t> enumSizes;  // per argument: the size of its enumeration, or 0 if it is not one
};

IValue toList(napi_env env, napi_value value, const TypePtr& type);

IValue toValue(napi_env env, napi_value value, const TypePtr& type) {
  switch (type->kind()) {
    case TypeKind::OptionalType:
      if (isNothing(env, value)) return IValue();
      return toValue(env, value, type->castRaw<c10::OptionalType>()->getElementType());
    case TypeKind::TensorType:
      return toTensor(env, value);
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return toInteger(env, value);
    case TypeKind::FloatType:
      return toDouble(env, value);
    case TypeKind::BoolType:
      return toBoolean(env, value);
    case TypeKind::NumberType: {
      if (getKind(env, value) == napi_boolean) return at::Scalar(toBoolean(env, value));
      double number = toDouble(env, value);
      // Integers stay integers, so that they do not turn an integer tensor into a floating-point
      // one.
      if (number == std::floor(number) && std::abs(number) <= 9007199254740991.0)
        return at::Scalar(static_cast<int64_t>(number));
      return at::Scalar(number);
    }
    case TypeKind::StringType:
      return toText(env, value);
    case TypeKind::DeviceObjType:
      return at::Device(toText(env, value));
    case TypeKind::ListType:
      return toList(env, value, type);
    default:
      break;
  }
  throw std::invalid_argument("arguments of type " + type->str() + " cannot be passed from JavaScript");
}

IValue toList(napi_env env, napi_value value, const TypePtr& type) {
  TypePtr inner = type->castRaw<c10::ListType>()->getElementType();
  if (inner->kind() == TypeKind::SymIntType) inner = c10::IntType::get();
  auto list = c10::impl::GenericList(inner);
  if (inner->kind() == TypeKind::IntType && getKind(env, value) == napi_number) {
    list.push_back(toInteger(env, value));
    return list;
  }
  uint32_t length = arrayLength(env, value, inner->kind() == TypeKind::TensorType ? "an array of tensors" : "an array");
  for (uint32_t i = 0; i < length; i++) list.push_back(toValue(env, element(env, value, i), inner));
  return list;
}

/**
 * Returns the size of an argument's enumeration, or 0. Data types, layouts and memory formats are
 * plain integers in a schema, and libtorch uses them as indices without a check.
 */
int64_t getEnumSize(const c10::Argument& argument) {
  std::string type = argument.real_type()->str();
  if (!type.empty() && type.back() == '?') type.pop_back();
  if (type == "ScalarType") return static_cast<int64_t>(c10::ScalarType::Undefined);
  if (type == "Layout") return static_cast<int64_t>(c10::Layout::NumOptions);
  if (type == "MemoryFormat") return static_cast<int64_t>(c10::MemoryFormat::NumOptions);
  return 0;
}

/** Converts a JavaScript value to an argument of the schema. */
IValue toArgument(napi_env env, napi_value value, const c10::Argument& argument, int64_t enumSize) {
  IValue converted = toValue(env, value, argument.type());
  if (enumSize && converted.isInt() && (converted.toInt() < 0 || converted.toInt() >= enumSize))
    throw std::invalid_argument("expected 0 to " + std::to_string(enumSize - 1) + ", received " +
                                std::to_string(converted.toInt()));
  return converted;
}

napi_value fromValue(napi_env env, const IValue& value) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) return fromDouble(env, keepTensor(value.toTensor()));
  } else if (value.isTensorList()) {
    auto list = value.toTensorVector();
    napi_value array;
    napi_create_array_with_length(env, list.size(), &array);
    for (size_t i = 0; i < list.size(); i++)
      napi_set_element(env, array, i, fromDouble(env, keepTensor(list[i])));
    return array;
  } else if (value.isDouble()) {
    return fromDouble(env, value.toDouble());
  } else if (value.isInt()) {
    return fromDouble(env, static_cast<double>(value.toInt()));
  } else if (value.isBool()) {
    return fromBoolean(env, value.toBool());
  } else if (value.isScalar()) {
    return fromDouble(env, value.toScalar().toDouble());
  }
  return fromNull(env);
}

/** Formats a call with the dtypes and shapes of its tensors, for error messages. */
std::string describeCall(const Operator& op, const torch::jit::Stack& stack) {
  std::ostringstream text;
  text << op.name << "(";
  size_t shown = 0;
  auto tensor = [&](const at::Tensor& t) {
    if (++shown > 9) return;
    if (shown > 1) text << ", ";
    if (shown == 9) {
      text << "…";
      return;
    }
    text << (t.defined() ? c10::toString(t.scalar_type()) : "undefined");
    if (t.defined()) text << t.sizes();
  };
  for (const auto& value : stack) {
    if (value.isTensor()) tensor(value.toTensor());
    else if (value.isTensorList()) for (const auto& t : value.toTensorVector()) tensor(t);
  }
  text << ")";
  return text.str();
}

/**
 * Checks the arguments of a fused optimizer. libtorch walks every list with the sizes of the first
 * one, in memory order, so any other length, shape, type or layout would read past the end.
 */
void checkFusedArguments(const Operator& op, const torch::jit::Stack& stack) {
  if (!stack[0].isTensorList()) return;
  const auto& arguments = op.handle.schema().arguments();
  auto parameters = stack[0].toTensorVector();
  bool amsgrad = false;
  for (size_t i = 0; i < stack.size(); i++)
    if (arguments[i].name() == "amsgrad") amsgrad = stack[i].toBool();
  for (size_t i = 0; i < stack.size(); i++) {
    // The learning rate, the scale of the gradients, and whether an infinity was found.
    if (stack[i].isTensor() && stack[i].toTensor().defined())
      TORCH_CHECK(stack[i].toTensor().numel() == 1, "expected one number as ", arguments[i].name(), ", received ",
                  stack[i].toTensor().sizes());
    if (!stack[i].isTensorList()) continue;
    auto list = stack[i].toTensorVector();
    const std::string& name = arguments[i].name();
    bool optional = (name == "max_exp_avg_sqs" && !amsgrad) || name == "momentum_buffer_list";
    if (list.empty() && optional) continue;
    TORCH_CHECK(list.size() == parameters.size(), "expected lists of ", parameters.size(), " tensors, received ", name,
                " of ", list.size());
    bool steps = name == "state_steps";
    for (size_t k = 0; k < list.size(); k++) {
      const auto &tensor = list[k], &parameter = parameters[k];
      TORCH_CHECK(tensor.defined() && parameter.defined(), "expected tensors, received an undefined one in ", name);
      TORCH_CHECK(tensor.device() == parameter.device(), "expected tensors on one device, received ", name, " on ",
                  tensor.device());
      if (steps) {
        TORCH_CHECK(tensor.numel() == 1 && tensor.scalar_type() == at::kFloat,
                    "expected one float per step count, received ", tensor.scalar_type(), tensor.sizes());
      } else {
        TORCH_CHECK(tensor.sizes() == parameter.sizes() && tensor.scalar_type() == parameter.scalar_type() &&
                        tensor.is_contiguous(),
                    "expected contiguous tensors of the same shape, received ", parameter.sizes(), " and ",
                    tensor.sizes());
      }
    }
  }
}

napi_value invoke(napi_env env, napi_callback_info info) {
  return guarded(env, [&]() -> napi_value {
    Call call(env, info);
    auto& op = *static_cast<Operator*>(call.data);
    const auto& arguments = op.handle.schema().arguments();
    if (call.count > arguments.size())
      throw std::invalid_argument(op.name + ": expected at most " + std::to_string(arguments.size()) +
                                  " arguments, received " + std::to_string(call.count));
    torch::jit::Stack stack;
    stack.reserve(arguments.size());
    for (size_t i = 0; i < arguments.size(); i++) {
      napi_value value = call.at(i);
      try {
        if (i < call.count && getKind(env, value) != napi_undefined)
          stack.push_back(toArgument(env, value, arguments[i], op.enumSizes[i]));
        else if (arguments[i].default_value()) stack.push_back(*arguments[i].default_value());
        else throw std::invalid_argument("missing");
      } catch (...) {
        throw std::invalid_argument(op.name + ": argument " + arguments[i].name() + ": " + currentMessage());
      }
    }
    torch::jit::Stack received = stack;  // the call consumes the stack, but an error message shows the arguments
    try {
      if (op.fused) checkFusedArguments(op, stack);
      op.handle.callBoxed(&stack);
    } catch (...) {
      throw std::runtime_error(describeCall(op, received) + ": " + currentMessage());
    }
    if (op.inPlace || stack.empty()) return nullptr;
    if (stack.size() == 1) return fromValue(env, stack[0]);
    napi_value array;
    napi_create_array_with_length(env, stack.size(), &array);
    for (size_t i = 0; i < stack.size(); i++) napi_set_element(env, array, i, fromValue(env, stack[i]));
    return array;
  });
}

/**
 * op(name, overload): returns a function that calls the operator. Its property `returns` has one
 * letter per result: T for a tensor, L for a list of tensors, V for a plain value.
 */
napi_value findOperator(const Call& call) {
  std::string name = toText(call.env, call.at(0));
  std::string overload = isNothing(call.env, call.at(1)) ? "" : toText(call.env, call.at(1));
  auto found = c10::Dispatcher::singleton().findSchema({name, overload});
  std::string fullName = overload.empty() ? name : name + "." + overload;
  if (!found) throw std::invalid_argument("operator " + fullName + " is not in this libtorch (" TORCH_VERSION ")");
  const auto& schema = found->schema();
  const auto& returns = schema.returns();
  bool inPlace = !returns.empty() && returns[0].alias_info() && returns[0].alias_info()->isWrite();
  // Operators are looked up once per process and never freed: a few hundred small objects.
  auto* op = new Operator{*found, fullName, inPlace, name.rfind("aten::_fused_", 0) == 0, {}};
  for (const auto& argument : schema.arguments()) op->enumSizes.push_back(getEnumSize(argument));
  napi_value function;
  napi_create_function(call.env, fullName.c_str(), NAPI_AUTO_LENGTH, invoke, op, &function);
  std::string kinds;
  if (!inPlace)
    for (const auto& result : returns) {
      bool list = result.type()->kind() == TypeKind::ListType;
      kinds += result.type()->kind() == TypeKind::TensorType ? 'T' : list ? 'L' : 'V';
    }
  set(call.env, function, "returns", fromText(call.env, kinds));
  set(call.env, function, "schema", fromText(call.env, c10::toString(schema)));
  return function;
}

}  // namespace

void defineDispatch(napi_env env, napi_value exports) { define<findOperator>(env, exports, "op"); }

}  // namespace temper
