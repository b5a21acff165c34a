// Moves the results of matrix products and reductions by random last bits, for tests only. Another
// processor, another number of threads or another library sums in another order; a test that passes
// with every jitter depends on none of them.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "binding/exports.h"

namespace temper {
namespace {

/** How an operator's rounding error depends on its values. */
enum class Error {
  // A sum of terms that are linear in the arguments: proportional to the sum of the terms' absolute
  // values, which the same operator computes from absolute arguments.
  linear,
  relative,    // proportional to the value
  logarithm,   // that of a logarithm of a value around 1
  attention,   // cancelling, and the logarithms that its backward pass needs
  cancelling,  // proportional to the other values of the row, because large terms may cancel
};

const Error* findError(std::string_view name) {
  static const std::unordered_map<std::string_view, Error> errors = {
      {"aten::mm", Error::linear},
      {"aten::bmm", Error::linear},
      {"aten::addmm", Error::linear},
      {"aten::baddbmm", Error::linear},
      {"aten::mv", Error::linear},
      {"aten::addmv", Error::linear},
      {"aten::dot", Error::linear},
      {"aten::sum", Error::linear},
      {"aten::mean", Error::linear},
      {"aten::cumsum", Error::linear},
      {"aten::embedding_dense_backward", Error::linear},
      {"aten::index_add", Error::linear},
      {"aten::scatter_add", Error::linear},
      {"aten::_softmax", Error::relative},
      {"aten::logsumexp", Error::logarithm},
      {"aten::linalg_vector_norm", Error::relative},
      {"aten::norm", Error::relative},
      {"aten::var", Error::relative},
      {"aten::std", Error::relative},
      {"aten::var_mean", Error::relative},
      {"aten::prod", Error::relative},
      {"aten::_log_softmax", Error::logarithm},
      {"aten::_softmax_backward_data", Error::cancelling},
      {"aten::_log_softmax_backward_data", Error::cancelling},
      {"aten::native_layer_norm", Error::cancelling},
      {"aten::native_layer_norm_backward", Error::cancelling},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", Error::attention},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", Error::cancelling},
      {"mkldnn::_linear_pointwise", Error::cancelling},
      {"temper::dense", Error::cancelling},
      {"temper::dense_norm", Error::cancelling},
      {"temper::feed_forward", Error::cancelling},
      {"temper::cpu_attention", Error::cancelling},
      {"temper::cpu_embedding_norm", Error::cancelling},
  };
  auto found = errors.find(name);
  return found == errors.end() ? nullptr : &found->second;
}

std::optional<uint64_t> jitterSeed;
std::optional<at::CallbackHandle> callback;
thread_local bool inside = false;  // the jitter's own operators are not moved

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

double unitRoundoff(at::ScalarType dtype) {
  return dtype == at::kFloat ? 0x1p-24 : dtype == at::kHalf ? 0x1p-11 : 0x1p-8;
}

struct Started : at::ObserverContext {
  Error error;
  std::vector<c10::IValue> inputs;
};

std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& function) {
  const Error* error = inside ? nullptr : findError(function.name());
  if (!error) return nullptr;
  auto started = std::make_unique<Started>();
  started->error = *error;
  if (*error == Error::linear) started->inputs.assign(function.inputs().begin(), function.inputs().end());
  return started;
}

/** Repeats a linear operator in float64, with its arguments or with their absolute values. */
at::Tensor repeat(const at::RecordFunction& function, const Started& started, bool absolute) {
  auto op = c10::Dispatcher::singleton().findSchema(*function.operator_name());
  torch::jit::Stack stack = started.inputs;
  for (size_t i = 0; i < stack.size(); i++) {
    if (op->schema().arguments()[i].name() == "dtype") stack[i] = c10::IValue();
    if (!stack[i].isTensor() || !stack[i].toTensor().defined() || !stack[i].toTensor().is_floating_point()) continue;
    auto exact = stack[i].toTensor().to(at::kDouble);
    stack[i] = absolute ? exact.abs() : exact;
  }
  op->callBoxed(&stack);
  return stack[0].toTensor().contiguous();
}

/** The value that another order of the terms could give. It depends only on its arguments, as that of a processor. */
double move(double value, double error, uint64_t key, int64_t index) {
  uint64_t bits = mix(key ^ mix(static_cast<uint64_t>(index) ^ mix(std::bit_cast<uint64_t>(value))));
  double direction = static_cast<double>(bits >> 11) * 0x1p-52 - 1;  // uniform in [-1, 1)
  return value + direction * error;
}

/** Returns true if a value has so few digits that it was most likely computed without rounding. */
bool isShort(double value, double roundoff) {
  int exponent;
  double digits = std::frexp(value, &exponent) / std::sqrt(roundoff);
  return digits == std::floor(digits);
}

void moveResult(const at::RecordFunction& function, const Started& started, const at::Tensor& result, Error error,
                uint64_t key) {
  if (!result.defined() || result.device() != at::kCPU || result.layout() != at::kStrided || result.numel() == 0) return;
  auto dtype = result.scalar_type();
  if (dtype != at::kFloat && dtype != at::kBFloat16 && dtype != at::kHalf) return;
  double roundoff = unitRoundoff(dtype);
  // Without the version counter of the result, so that autograd accepts the change.
  auto target = result.variable_data();
  auto moved = target.to(at::kDouble).contiguous();
  auto* values = moved.data_ptr<double>();
  int64_t count = moved.numel(), width = moved.dim() ? moved.size(-1) : 1;
  // The addon's own kernels compute a row in the same way, whatever the other rows are.
  bool batchInvariant = std::string_view(function.name()).starts_with("temper::");
  // Sums are accumulated in float32 and rounded once to a smaller format.
  auto moveValue = [&](int64_t i, double value, double size) {
    values[i] = move(value, unitRoundoff(at::kFloat) * size, key, batchInvariant ? i % width : i);
  };
  for (int64_t size : batchInvariant ? at::IntArrayRef(width) : result.sizes())
    key = mix(key ^ static_cast<uint64_t>(size));
  if (error == Error::linear) {
    auto exact = repeat(function, started, false), sizes = repeat(function, started, true);
    auto rounded = exact.to(dtype).to(at::kDouble), roundedSizes = sizes.to(dtype).to(at::kDouble);
    auto *e = exact.data_ptr<double>(), *s = sizes.data_ptr<double>();
    auto *r = rounded.data_ptr<double>(), *rs = roundedSizes.data_ptr<double>();
    for (int64_t i = 0; i < count; i++) {
      // Sums of integers and products with 0 and 1 are exact in every order.
      if ((e[i] == r[i] && s[i] == rs[i]) || !std::isfinite(s[i])) continue;
      moveValue(i, e[i], s[i]);
    }
  } else {
    for (int64_t row = 0; row < count; row += width) {
      double mean = 0;
      for (int64_t i = row; i < row + width; i++) mean += std::abs(values[i]) / static_cast<double>(width);
      for (int64_t i = row; i < row + width; i++) {
        if (!std::isfinite(values[i]) || isShort(values[i], roundoff)) continue;
        double others = error == Error::logarithm ? 1 : 0;
        if (error == Error::cancelling && std::isfinite(mean)) others = mean / 2;
        moveValue(i, values[i], 2 * std::abs(values[i]) + others);
      }
    }
  }
  target.copy_(moved);
}

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  if (!context || !jitterSeed) return;
  auto& started = *static_cast<Started*>(context);
  // Overloads that write into an argument have lost what they were computed from.
  auto name = function.operator_name();
  if (!name || name->overload_name.find("out") != std::string::npos) return;
  inside = true;
  try {
    at::NoGradGuard noGrad;
    uint64_t key = mix(*jitterSeed ^ std::hash<std::string_view>()(function.name()));
    bool attention = started.error == Error::attention;
    Error error = attention ? Error::cancelling : started.error;
    for (const auto& output : function.outputs()) {
      key = mix(key);
      if (output.isTensor()) moveResult(function, started, output.toTensor(), error, key);
      if (attention) error = Error::logarithm;
    }
  } catch (...) {
    inside = false;
    throw;
  }
  inside = false;
}

void setSeed(std::optional<uint64_t> seed) {
  jitterSeed = seed;
  if (callback && !jitterSeed) {
    at::removeCallback(*callback);
    callback.reset();
  } else if (!callback && jitterSeed) {
    callback = at::addGlobalCallback(at::RecordFunctionCallback(start, end)
                                         .needsInputs(true)
                                         .needsOutputs(true)
                                         .scopes({at::RecordScope::FUNCTION}));
  }
}

/** jitter(seed): moves results from now on; null ends it. Returns the seed that was in force. */
napi_value setJitter(const Call& call) {
  auto before = jitterSeed;
  if (isNothing(call.env, call.at(0))) setSeed(std::nullopt);
  else setSeed(static_cast<uint64_t>(toInteger(call.env, call.at(0))));
  return before ? fromDouble(call.env, static_cast<double>(*before)) : fromNull(call.env);
}

}  // namespace

void defineJitter(napi_env env, napi_value exports) {
  if (const char* seed = std::getenv("TEMPER_JITTER")) setSeed(std::strtoull(seed, nullptr, 10));
  define<setJitter>(env, exports, "jitter");
}

}  // namespace temper
