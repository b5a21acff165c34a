// Operators of our own on a GPU. Each launches kernels of native/kernels, which JavaScript compiles
// and loads first, and knows its gradient. They are called like libtorch's operators:
// temper::residual_norm and so on.
#include "exports.h"

#ifdef TEMPER_CUDA
#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <map>
#include <tuple>
#include <vector>

namespace temper {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/** The functions of the CUDA driver, which the process has already loaded. */
struct Driver {
  decltype(&cuModuleLoadData) loadModule;
  decltype(&cuModuleGetFunction) getFunction;
  decltype(&cuLaunchKernel) launch;
};

const Driver& driver() {
  static const Driver functions = [] {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    TORCH_CHECK(library, "the CUDA driver does not load: ", dlerror());
    return Driver{reinterpret_cast<decltype(&cuModuleLoadData)>(dlsym(library, "cuModuleLoadData")),
                  reinterpret_cast<decltype(&cuModuleGetFunction)>(dlsym(library, "cuModuleGetFunction")),
                  reinterpret_cast<decltype(&cuLaunchKernel)>(dlsym(library, "cuLaunchKernel"))};
  }();
  return functions;
}

void check(CUresult result, const std::string& what) {
  TORCH_CHECK(result == CUDA_SUCCESS, what, ": CUDA error ", static_cast<int>(result));
}

/** Loaded files by name, width and dtype, as in `loadKernels`. */
std::map<std::string, CUmodule>& modules() {
  static auto* loaded = new std::map<std::string, CUmodule>();
  return *loaded;
}

CUfunction findKernel(const char* file, int64_t width, at::ScalarType dtype, const char* name) {
  static auto* functions = new std::map<std::tuple<std::string, int64_t, at::ScalarType, std::string>, CUfunction>();
  auto& function = (*functions)[{file, width, dtype, name}];
  if (function) return function;
  auto key = std::string(file) + " " + std::to_string(width) + (dtype == at::kBFloat16 ? " bfloat16" : " float32");
  auto module = modules().find(key);
  TORCH_CHECK(module != modules().end(), "the kernels ", key, " are not loaded");
  check(driver().getFunction(&function, module->second, name), name);
  return function;
}

template <typename... Arguments>
void launch(CUfunction function, dim3 grid, unsigned threads, Arguments... arguments) {
  void* pointers[] = {&arguments...};
  auto stream = c10::cuda::getCurrentCUDAStream().stream();
  check(driver().launch(function, grid.x, grid.y, 1, threads, 1, 1, 0, stream, pointers, nullptr), "kernel launch");
}

const void* read(const Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr() : nullptr; }
void* write(const Tensor& tensor) { return tensor.defined() ? tensor.mutable_data_ptr() : nullptr; }

unsigned divideUp(int64_t count, int64_t size) { return static_cast<unsigned>((count + size - 1) / size); }

/** As `Dropout` in prelude.cuh. */
struct Dropout {
  const void* seed;
  uint32_t limit;
  float scale;
};

Dropout makeDropout(const Tensor& seed, double p) {
  return {read(seed), static_cast<uint32_t>(p * 4294967296.0), static_cast<float>(1 / (1 - p))};
}

/** These kernels have no second derivative. */
void rejectSecondDerivative() {
  TORCH_CHECK(!at::GradMode::is_enabled(), "fused kernels have no second derivative; set TEMPER_KERNELS=0");
}

/** Adds rows of partial sums [block, column] in a fixed order. */
Tensor sumBlocks(const Tensor& partial, int64_t width, at::ScalarType dtype) {
  int columns = static_cast<int>(partial.size(1)), blocks = static_cast<int>(partial.size(0));
  Tensor result = at::empty({columns}, partial.options().dtype(dtype));
  launch(findKernel("column_sum", width, dtype, "sum_blocks"), dim3(divideUp(columns, 32)), 256, read(partial),
         write(result), blocks, columns);
  return result;
}

int getRowsPerBlock(int64_t rows) { return static_cast<int>(std::max<int64_t>(16, divideUp(rows, 128))); }

/** The sum over all but the last dimension. */
Tensor sumRows(const Tensor& input) {
  Tensor matrix = input.contiguous();
  int64_t width = matrix.size(-1), rows = matrix.numel() / width;
  int rowsPerBlock = getRowsPerBlock(rows);
  dim3 grid(divideUp(width, 512), divideUp(rows, rowsPerBlock));
  Tensor partial = at::empty({grid.y, width}, matrix.options().dtype(at::kFloat));
  launch(findKernel("column_sum", width, matrix.scalar_type(), "sum_row_blocks"), grid, 128, read(matrix),
         write(partial), static_cast<int>(rows), rowsPerBlock);
  return sumBlocks(partial, width, matrix.scalar_type());
}

/** LayerNorm(residual + dropout(input + bias)) and what its gradient needs. */
struct Normalized {
  Tensor output, sum, statistics;
};

Normalized normalize(const Tensor& input, const Tensor& bias, const Tensor& residual, const Tensor& weight,
                     const Tensor& offset, const Tensor& seed, double p, double epsilon, bool keepSum) {
  int64_t width = input.size(-1), rows = input.numel() / width;
  Normalized result;
  result.output = at::empty_like(input);
  if (keepSum) {
    result.sum = at::empty_like(input);
    result.statistics = at::empty({rows, 2}, input.options().dtype(at::kFloat));
  }
  launch(findKernel("residual_norm", width, input.scalar_type(), "residual_norm_forward"), dim3(divideUp(rows, 4)), 128,
         read(input), read(bias), read(residual), read(weight), read(offset), write(result.output), write(result.sum),
         write(result.statistics), makeDropout(seed, p), static_cast<float>(epsilon), static_cast<int>(rows));
  return result;
}

struct ResidualNorm : torch::autograd::Function<ResidualNorm> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const OptionalTensor& bias,
                        const OptionalTensor& residual, const Tensor& weight, const Tensor& offset,
                        const OptionalTensor& seed, double p, double epsilon) {
    auto result = normalize(input, bias.value_or(Tensor()), residual.value_or(Tensor()), weight, offset,
                            seed.value_or(Tensor()), p, epsilon, true);
    context->save_for_backward({result.sum, result.statistics, weight, seed.value_or(Tensor())});
    context->saved_data["p"] = p;
    context->saved_data["bias"] = bias.has_value();
    context->saved_data["residual"] = residual.has_value();
    return result.output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    rejectSecondDerivative();
    auto saved = context->get_saved_variables();
    const Tensor &sum = saved[0], &statistics = saved[1], &weight = saved[2], &seed = saved[3];
    Tensor gradient = gradients[0].contiguous();
    int64_t width = sum.size(-1), rows = sum.numel() / width;
    Tensor sumGradient = at::empty_like(sum);
    Tensor inputGradient = seed.defined() ? at::empty_like(sum) : sumGradient;
    unsigned blocks = std::min<unsigned>(divideUp(rows, 4), 264);
    Tensor partial = at::empty({blocks, 3 * width}, statistics.options());
    launch(findKernel("residual_norm", width, sum.scalar_type(), "residual_norm_backward"), dim3(blocks), 128,
           read(gradient), read(sum), read(statistics), read(weight), write(sumGradient), write(inputGradient),
           write(partial), makeDropout(seed, context->saved_data["p"].toDouble()), static_cast<int>(rows));
    auto sums = sumBlocks(partial, width, sum.scalar_type()).split(width);
    return {inputGradient,
            context->saved_data["bias"].toBool() ? sums[2] : Tensor(),
            context->saved_data["residual"].toBool() ? sumGradient : Tensor(),
            sums[0],
            sums[1],
            Tensor(),
            Tensor(),
            Tensor()};
  }
};

bool needsGradient(std::initializer_list<Tensor> tensors) {
  if (!at::GradMode::is_enabled()) return false;
  for (const auto& tensor : tensors)
    if (tensor.defined() && tensor.requires_grad()) return true;
  return false;
}

Tensor residualNorm(const Tensor& input, const OptionalTensor& bias, const OptionalTensor& residual,
                    const Tensor& weight, const Tensor& offset, const OptionalTensor& seed, double p, double epsilon) {
  Tensor x = input.contiguous(), b = bias.value_or(Tensor()), s = seed.value_or(Tensor());
  OptionalTensor shortcut = residual ? OptionalTensor(residual->contiguous()) : std::nullopt;
  Tensor r = shortcut.value_or(Tensor());
  if (needsGradient({x, b, r, weight, offset}))
    return ResidualNorm::apply(x, bias, shortcut, weight, offset, seed, p, epsilon);
  return normalize(x, b, r, weight, offset, s, p, epsilon, false).output;
}

const char* getActivationFile(bool tanh) { return tanh ? "activation-tanh" : "activation"; }

Tensor activate(const Tensor& input, const Tensor& bias, bool tanh) {
  Tensor output = at::empty_like(input);
  int64_t groups = input.numel() / 4;
  auto kernel = findKernel(getActivationFile(tanh), input.size(-1), input.scalar_type(), "activation_forward");
  launch(kernel, dim3(std::min<unsigned>(divideUp(groups, 128), 1 << 16)), 128, read(input), read(bias), write(output),
         static_cast<long long>(groups));
  return output;
}

struct BiasGelu : torch::autograd::Function<BiasGelu> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& bias, bool tanh) {
    context->save_for_backward({input, bias});
    context->saved_data["tanh"] = tanh;
    return activate(input, bias, tanh);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    rejectSecondDerivative();
    auto saved = context->get_saved_variables();
    const Tensor &input = saved[0], &bias = saved[1];
    Tensor gradient = gradients[0].contiguous(), inputGradient = at::empty_like(input);
    int64_t width = input.size(-1), rows = input.numel() / width;
    int rowsPerBlock = getRowsPerBlock(rows);
    dim3 grid(divideUp(width, 512), divideUp(rows, rowsPerBlock));
    Tensor partial = at::empty({grid.y, width}, input.options().dtype(at::kFloat));
    const char* file = getActivationFile(context->saved_data["tanh"].toBool());
    launch(findKernel(file, width, input.scalar_type(), "activation_backward"), grid, 128, read(gradient), read(input),
           read(bias), write(inputGradient), write(partial), static_cast<int>(rows), rowsPerBlock);
    return {inputGradient, sumBlocks(partial, width, input.scalar_type()), Tensor()};
  }
};

Tensor biasGelu(const Tensor& input, const Tensor& bias, bool tanh) {
  Tensor x = input.contiguous();
  return needsGradient({x, bias}) ? BiasGelu::apply(x, bias, tanh) : activate(x, bias, tanh);
}

/** input · weightᵀ + bias. Only the gradient of the bias differs from libtorch's. */
struct Linear : torch::autograd::Function<Linear> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight, const Tensor& bias) {
    context->save_for_backward({input, weight});
    return at::linear(input, weight, bias);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    rejectSecondDerivative();
    auto saved = context->get_saved_variables();
    const Tensor &input = saved[0], &weight = saved[1];
    Tensor gradient = gradients[0].contiguous();
    Tensor flat = gradient.reshape({-1, gradient.size(-1)});
    return {context->needs_input_grad(0) ? gradient.matmul(weight) : Tensor(),
            context->needs_input_grad(1) ? flat.t().mm(input.reshape({-1, input.size(-1)})) : Tensor(),
            context->needs_input_grad(2) ? sumRows(flat) : Tensor()};
  }
};

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  return needsGradient({input, weight, bias}) ? Linear::apply(input, weight, bias) : at::linear(input, weight, bias);
}

/** Makes libtorch choose deterministic kernels until the end of a block. */
class DeterministicGuard {
 public:
  explicit DeterministicGuard(bool active) : active_(active) {
    auto& context = at::globalContext();
    before_ = context.deterministicAlgorithms();
    warnOnly_ = context.deterministicAlgorithmsWarnOnly();
    if (active_) context.setDeterministicAlgorithms(true, false);
  }
  ~DeterministicGuard() {
    if (active_) at::globalContext().setDeterministicAlgorithms(before_, warnOnly_);
  }

 private:
  bool active_, before_, warnOnly_;
};

/** From this number of keys on, several blocks add to a gradient, in any order by default. */
constexpr int64_t keysPerBlock = 128;

/** Attention within texts that follow each other without padding, by libtorch's flash attention. */
struct PackedAttention : torch::autograd::Function<PackedAttention> {
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& key, const Tensor& value,
                        const Tensor& queryStarts, const Tensor& keyStarts, int64_t maxQueries, int64_t maxKeys,
                        double p) {
    auto [output, logSumExp, state, unused, mask] = at::_flash_attention_forward(
        query, key, value, queryStarts, keyStarts, maxQueries, maxKeys, p, false, false);
    context->save_for_backward({query, key, value, queryStarts, keyStarts, output, logSumExp, state, unused});
    context->saved_data["maxQueries"] = maxQueries;
    context->saved_data["maxKeys"] = maxKeys;
    context->saved_data["p"] = p;
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    rejectSecondDerivative();
    auto saved = context->get_saved_variables();
    int64_t maxKeys = context->saved_data["maxKeys"].toInt();
    DeterministicGuard guard(maxKeys > keysPerBlock);
    auto [query, key, value] = at::_flash_attention_backward(
        gradients[0].contiguous(), saved[0], saved[1], saved[2], saved[5], saved[6], saved[3], saved[4],
        context->saved_data["maxQueries"].toInt(), maxKeys, context->saved_data["p"].toDouble(), false, saved[7],
        saved[8]);
    return {query, key, value, Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

Tensor packedAttention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& queryStarts,
                       const Tensor& keyStarts, int64_t maxQueries, int64_t maxKeys, double p) {
  return PackedAttention::apply(query, key, value, queryStarts, keyStarts, maxQueries, maxKeys, p);
}

Tensor dropElements(const Tensor& input, const Tensor& seed, double p) {
  Tensor output = at::empty_like(input);
  launch(findKernel("dropout", 0, input.scalar_type(), "dropout_elements"),
         dim3(std::min<unsigned>(divideUp(input.numel(), 1024), 4096)), 256, read(input), write(output),
         makeDropout(seed, p), static_cast<long long>(input.numel()));
  return output;
}

struct SeededDropout : torch::autograd::Function<SeededDropout> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& seed, double p) {
    context->save_for_backward({seed});
    context->saved_data["p"] = p;
    return dropElements(input, seed, p);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    rejectSecondDerivative();
    Tensor seed = context->get_saved_variables()[0];
    return {dropElements(gradients[0].contiguous(), seed, context->saved_data["p"].toDouble()), Tensor(), Tensor()};
  }
};

Tensor seededDropout(const Tensor& input, const Tensor& seed, double p) {
  Tensor x = input.contiguous();
  return needsGradient({x}) ? SeededDropout::apply(x, seed, p) : dropElements(x, seed, p);
}

/** What the kernels of an embedding layer read besides the tables. */
struct EmbeddedTokens {
  Tensor ids, typeIds, indices, seed;
  double p, epsilon;
  int firstPosition, length;

  int64_t count() const { return indices.defined() ? indices.numel() : ids.numel(); }
};

Normalized embedTokens(const Tensor& words, const Tensor& positions, const Tensor& types, const Tensor& weight,
                       const Tensor& offset, const EmbeddedTokens& tokens, bool keepSum) {
  int64_t width = words.size(-1), rows = tokens.count();
  Normalized result;
  result.output = at::empty({rows, width}, words.options());
  if (keepSum) {
    result.sum = at::empty_like(result.output);
    result.statistics = at::empty({rows, 2}, words.options().dtype(at::kFloat));
  }
  launch(findKernel("embedding_norm", width, words.scalar_type(), "embedding_norm_forward"), dim3(divideUp(rows, 4)),
         128, read(words), read(positions), read(types), read(tokens.ids), read(tokens.typeIds), read(tokens.indices),
         read(weight), read(offset), write(result.output), write(result.sum), write(result.statistics),
         makeDropout(tokens.seed, tokens.p), static_cast<float>(tokens.epsilon), tokens.firstPosition, tokens.length,
         static_cast<int>(rows));
  return result;
}

struct EmbeddingNorm : torch::autograd::Function<EmbeddingNorm> {
  static Tensor forward(AutogradContext* context, const Tensor& words, const Tensor& positions, const Tensor& types,
                        const Tensor& weight, const Tensor& offset, const Tensor& ids, const OptionalTensor& typeIds,
                        const OptionalTensor& indices, const OptionalTensor& seed, double p, double epsilon,
                        int64_t firstPosition, int64_t length) {
    EmbeddedTokens tokens{ids,     typeIds.value_or(Tensor()),      indices.value_or(Tensor()), seed.value_or(Tensor()), p,
                          epsilon, static_cast<int>(firstPosition), static_cast<int>(length)};
    auto result = embedTokens(words, positions, types, weight, offset, tokens, true);
    context->save_for_backward(
        {result.sum, result.statistics, weight, ids, tokens.typeIds, tokens.indices, tokens.seed});
    context->saved_data["p"] = p;
    context->saved_data["firstPosition"] = firstPosition;
    context->saved_data["length"] = length;
    context->saved_data["vocabulary"] = words.size(0);
    context->saved_data["positions"] = positions.size(0);
    context->saved_data["types"] = types.size(0);
    return result.output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    rejectSecondDerivative();
    auto saved = context->get_saved_variables();
    const Tensor &sum = saved[0], &statistics = saved[1], &weight = saved[2], &ids = saved[3], &typeIds = saved[4],
                 &indices = saved[5], &seed = saved[6];
    auto getInteger = [&](const char* name) { return context->saved_data[name].toInt(); };
    Tensor gradient = gradients[0].contiguous(), sumGradient = at::empty_like(sum);
    int64_t width = sum.size(-1), rows = sum.size(0), length = getInteger("length");
    unsigned blocks = std::min<unsigned>(divideUp(rows, 4), 264);
    Tensor partial = at::empty({blocks, 3 * width}, statistics.options());
    Tensor rowOfPlace = at::full({ids.numel()}, -1, ids.options().dtype(at::kInt));
    launch(findKernel("embedding_norm", width, sum.scalar_type(), "embedding_norm_backward"), dim3(blocks), 128,
           read(gradient), read(sum), read(statistics), read(weight), read(indices), write(sumGradient), write(partial),
           write(rowOfPlace), makeDropout(seed, context->saved_data["p"].toDouble()), static_cast<int>(rows));
    auto sums = sumBlocks(partial, width, sum.scalar_type()).split(width);

    Tensor positions = at::empty({getInteger("positions"), width}, sum.options());
    launch(findKernel("embedding_norm", width, sum.scalar_type(), "sum_positions"),
           dim3(divideUp(width, 512), static_cast<unsigned>(positions.size(0))), 128, read(sumGradient),
           read(rowOfPlace), write(positions), static_cast<int>(getInteger("firstPosition")), static_cast<int>(length),
           static_cast<int>(ids.numel() / length));
    auto select = [&](const Tensor& values) { return indices.defined() ? values.index_select(0, indices) : values; };
    Tensor words = at::embedding_dense_backward(sumGradient, select(ids), getInteger("vocabulary"), -1, false);
    Tensor types;
    if (typeIds.defined()) {
      Tensor kinds = at::arange(getInteger("types"), ids.options()).unsqueeze(1);
      types = kinds.eq(select(typeIds).unsqueeze(0)).to(sum.scalar_type()).mm(sumGradient);
    } else {
      types = at::zeros({getInteger("types"), width}, sum.options());
      types.select(0, 0).copy_(sums[2]);
    }
    return {words,    positions, types,    sums[0],  sums[1],  Tensor(), Tensor(),
            Tensor(), Tensor(),  Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

Tensor embeddingNorm(const Tensor& words, const Tensor& positions, const Tensor& types, const Tensor& weight,
                     const Tensor& offset, const Tensor& ids, const OptionalTensor& typeIds,
                     const OptionalTensor& indices, const OptionalTensor& seed, double p, double epsilon,
                     int64_t firstPosition, int64_t length) {
  for (const Tensor& tensor : {words, positions, types, weight, offset, ids})
    TORCH_CHECK(tensor.is_cuda(), "expected tensors on a GPU");
  for (const OptionalTensor& integers : {OptionalTensor(ids), typeIds, indices})
    TORCH_CHECK(!integers || integers->scalar_type() == at::kLong, "expected indices in int64");
  TORCH_CHECK(firstPosition + length <= positions.size(0), "expected at most ", positions.size(0) - firstPosition,
              " positions, received ", length);
  Tensor w = words.contiguous(), q = positions.contiguous(), t = types.contiguous(), flatIds = ids.contiguous();
  if (needsGradient({w, q, t, weight, offset}))
    return EmbeddingNorm::apply(w, q, t, weight, offset, flatIds, typeIds, indices, seed, p, epsilon, firstPosition,
                                length);
  EmbeddedTokens tokens{flatIds, typeIds.value_or(Tensor()),      indices.value_or(Tensor()), seed.value_or(Tensor()), p,
                        epsilon, static_cast<int>(firstPosition), static_cast<int>(length)};
  return embedTokens(w, q, t, weight, offset, tokens, false).output;
}

/** As in adamw.cu. */
struct AdamwEntry {
  void *weight, *first, *second;
  const void* gradient;
  void* copy;
  long long count;
  int firstBlock, kind;
};
constexpr int maxAdamwEntries = 64;
constexpr int64_t adamwElementsPerBlock = 4096;
struct AdamwTable {
  AdamwEntry entries[maxAdamwEntries];
  int count;
};
struct AdamwConstants {
  float beta1, beta2, logBeta1, logBeta2, weightDecay, epsilon;
};

bool isAligned(const void* pointer, uintptr_t bytes) { return reinterpret_cast<uintptr_t>(pointer) % bytes == 0; }

AdamwEntry makeAdamwEntry(const Tensor& weight, const Tensor& gradient, const Tensor& first, const Tensor& second,
                          const Tensor& copy, int firstBlock) {
  bool isBf16 = gradient.scalar_type() == at::kBFloat16;
  TORCH_CHECK(isBf16 || gradient.scalar_type() == at::kFloat, "expected gradients in float32 or bfloat16");
  for (const Tensor& state : {weight, first, second})
    TORCH_CHECK(state.is_cuda() && state.is_contiguous() && state.scalar_type() == at::kFloat &&
                    state.numel() == gradient.numel(),
                "expected contiguous float32 tensors of the size of the gradient on a GPU");
  TORCH_CHECK(!copy.defined() || (copy.is_contiguous() && copy.scalar_type() == at::kBFloat16 &&
                                  copy.numel() == weight.numel()),
              "expected a contiguous bfloat16 copy of the size of its weight");
  AdamwEntry entry{write(weight), write(first),   write(second), read(gradient),
                   write(copy),   weight.numel(), firstBlock,    isBf16 ? 1 : 0};
  if (isAligned(entry.weight, 16) && isAligned(entry.first, 16) && isAligned(entry.second, 16) &&
      isAligned(entry.gradient, isBf16 ? 8 : 16) && isAligned(entry.copy, 8))
    entry.kind |= 2;
  return entry;
}

/** One step of AdamW in place. `copies` is empty, or has a bfloat16 copy of each weight. */
void adamw(at::TensorList weights, at::TensorList gradients, at::TensorList first, at::TensorList second,
           at::TensorList copies, const Tensor& step, const Tensor& learningRate, const OptionalTensor& clipFactor,
           double beta1, double beta2, double weightDecay, double epsilon) {
  size_t size = weights.size();
  TORCH_CHECK(gradients.size() == size && first.size() == size && second.size() == size &&
                  (copies.empty() || copies.size() == size),
              "expected lists of ", size, " tensors");
  Tensor factor = clipFactor.value_or(Tensor());
  for (const Tensor& scalar : {step, learningRate, factor})
    TORCH_CHECK(!scalar.defined() || (scalar.is_cuda() && scalar.numel() == 1 && scalar.scalar_type() == at::kFloat),
                "expected one float32 value on a GPU");
  AdamwConstants constants{static_cast<float>(beta1),           static_cast<float>(beta2),
                           static_cast<float>(std::log(beta1)), static_cast<float>(std::log(beta2)),
                           static_cast<float>(weightDecay),     static_cast<float>(epsilon)};
  auto kernel = findKernel("adamw", 0, at::kFloat, "adamw_step");
  for (size_t start = 0; start < size; start += maxAdamwEntries) {
    AdamwTable table{};
    std::vector<Tensor> contiguous;  // must live until the launch
    int blocks = 0;
    for (size_t i = start; i < size && table.count < maxAdamwEntries; i++) {
      if (weights[i].numel() == 0) continue;
      contiguous.push_back(gradients[i].contiguous());
      table.entries[table.count++] = makeAdamwEntry(weights[i], contiguous.back(), first[i], second[i],
                                                    copies.empty() ? Tensor() : copies[i], blocks);
      blocks += static_cast<int>(divideUp(weights[i].numel(), adamwElementsPerBlock));
    }
    if (blocks > 0)
      launch(kernel, dim3(blocks), 256, table, read(step), read(learningRate), read(factor), constants);
  }
}

TORCH_LIBRARY(temper, library) {
  library.def(
      "adamw_(Tensor[] weights, Tensor[] gradients, Tensor[] first, Tensor[] second, Tensor[] copies, Tensor step, "
      "Tensor learning_rate, Tensor? clip_factor, float beta1, float beta2, float weight_decay, float epsilon) -> ()",
      adamw);
  library.def(
      "residual_norm(Tensor input, Tensor? bias, Tensor? residual, Tensor weight, Tensor offset, Tensor? seed, "
      "float p, float epsilon) -> Tensor",
      residualNorm);
  library.def(
      "embedding_norm(Tensor words, Tensor positions, Tensor types, Tensor weight, Tensor offset, Tensor ids, "
      "Tensor? type_ids, Tensor? indices, Tensor? seed, float p, float epsilon, int first_position, int length) -> Tensor",
      embeddingNorm);
  library.def("bias_gelu(Tensor input, Tensor bias, bool tanh) -> Tensor", biasGelu);
  library.def("linear(Tensor input, Tensor weight, Tensor bias) -> Tensor", linear);
  library.def(
      "packed_attention(Tensor query, Tensor key, Tensor value, Tensor query_starts, Tensor key_starts, "
      "int max_queries, int max_keys, float p) -> Tensor",
      packedAttention);
  library.def("seeded_dropout(Tensor input, Tensor seed, float p) -> Tensor", seededDropout);
}

/** loadKernels(key, code): loads compiled kernels into the current GPU. */
napi_value loadKernels(const Call& call) {
  std::string key = toText(call.env, call.at(0));
  void* code = nullptr;
  size_t size = 0;
  if (napi_get_arraybuffer_info(call.env, call.at(1), &code, &size) != napi_ok || size == 0)
    throw std::invalid_argument("expected an ArrayBuffer with compiled kernels");
  CUmodule module;
  check(driver().loadModule(&module, code), "loading " + key);
  modules()[key] = module;
  return nullptr;
}

}  // namespace

void defineFused(napi_env env, napi_value exports) { define<loadKernels>(env, exports, "loadKernels"); }

}  // namespace temper

#else

namespace temper {

void defineFused(napi_env, napi_value) {}

}  // namespace temper

#endif
