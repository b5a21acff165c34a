// Operators of transformer layers on a GPU: temper::residual_norm, bias_gelu, linear and seeded_dropout.
// Each launches kernels of gpu/kernels and knows its gradient. cpu/dense.cc and cpu/dropout.cc are the
// siblings on a CPU.
#ifdef TEMPER_CUDA
#include <torch/library.h>

#include "gpu/launch.h"

namespace temper {

Tensor sumBlocks(const Tensor& partial, int64_t width, at::ScalarType dtype) {
  int columns = static_cast<int>(partial.size(1)), blocks = static_cast<int>(partial.size(0));
  Tensor result = at::empty({columns}, partial.options().dtype(dtype));
  launch(findKernel("column-sum", width, dtype, "sum_blocks"), dim3(divideUp(columns, 32)), 1024, read(partial),
         write(result), blocks, columns);
  return result;
}

namespace {

int getRowsPerBlock(int64_t rows) { return static_cast<int>(std::max<int64_t>(16, divideUp(rows, 128))); }

/** The sum over all but the last dimension. */
Tensor sumRows(const Tensor& input) {
  checkInput(input, 4);
  Tensor matrix = toAligned(input);
  int64_t width = matrix.size(-1), rows = matrix.numel() / width;
  int rowsPerBlock = getRowsPerBlock(rows);
  dim3 grid(divideUp(width, 512), divideUp(rows, rowsPerBlock));
  Tensor partial = at::empty({grid.y, width}, matrix.options().dtype(at::kFloat));
  launch(findKernel("column-sum", width, matrix.scalar_type(), "sum_row_blocks"), grid, 128, read(matrix),
         write(partial), static_cast<int>(rows), rowsPerBlock);
  return sumBlocks(partial, width, matrix.scalar_type());
}

/** LayerNorm(residual + dropout(input + bias)). */
Normalized normalize(const Tensor& input, const Tensor& bias, const Tensor& residual, const Tensor& weight,
                     const Tensor& offset, const Tensor& seed, double p, double epsilon, bool keepSum) {
  int64_t width = input.size(-1), rows = input.numel() / width;
  Normalized result;
  result.output = at::empty_like(input);
  if (keepSum) {
    result.sum = at::empty_like(input);
    result.statistics = at::empty({rows, 2}, input.options().dtype(at::kFloat));
  }
  launch(findKernel("residual-norm", width, input.scalar_type(), "residual_norm_forward"), dim3(divideUp(rows, 4)), 128,
         read(input), read(bias), read(residual), read(weight), read(offset), write(result.output), write(result.sum),
         write(result.statistics), makeDropout(seed, p), static_cast<float>(epsilon), static_cast<int>(rows));
  return result;
}

struct ResidualNorm : torch::autograd::Function<ResidualNorm> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& bias, const Tensor& residual,
                        const Tensor& weight, const Tensor& offset, const OptionalTensor& seed, double p,
                        double epsilon) {
    auto result = normalize(input, bias, residual, weight, offset, seed.value_or(Tensor()), p, epsilon, true);
    // The second gradient has no output of its own (`branchForResidual`).
    context->set_materialize_grads(false);
    context->save_for_backward({result.sum, result.statistics, weight, seed.value_or(Tensor())});
    context->saved_data["p"] = p;
    context->saved_data["parameters"] = weight.requires_grad() || offset.requires_grad() || bias.requires_grad();
    return result.output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    rejectSecondDerivative();
    auto saved = context->get_saved_variables();
    const Tensor &sum = saved[0], &statistics = saved[1], &weight = saved[2], &seed = saved[3];
    Tensor gradient, second;
    for (const Tensor& received : gradients) {
      if (!received.defined()) continue;
      (gradient.defined() ? second : gradient) = toAligned(received);
    }
    if (!gradient.defined()) return variable_list(8);
    int64_t width = sum.size(-1), rows = sum.numel() / width;
    Tensor sumGradient = at::empty_like(sum);
    Tensor inputGradient = seed.defined() ? at::empty_like(sum) : sumGradient;
    bool hasSums = context->saved_data["parameters"].toBool();
    unsigned blocks = divideUp(rows, 4);
    if (hasSums) blocks = std::min<unsigned>(blocks, 396);
    Tensor partial = hasSums ? at::empty({blocks, 3 * width}, statistics.options()) : Tensor();
    const char* name = hasSums ? "residual_norm_backward" : "residual_norm_backward_frozen";
    launch(findKernel("residual-norm", width, sum.scalar_type(), name), dim3(blocks), 128, read(gradient), read(second),
           read(sum), read(statistics), read(weight), write(sumGradient), write(inputGradient), write(partial),
           makeDropout(seed, context->saved_data["p"].toDouble()), static_cast<int>(rows));
    std::vector<Tensor> sums(3);
    if (hasSums) sums = sumBlocks(partial, width, sum.scalar_type()).split(width);
    return {inputGradient, sums[2], sumGradient, sums[0], sums[1], Tensor(), Tensor(), Tensor()};
  }
};

/**
 * A residual is also the input of a dense layer, so autograd would add the two gradients in a
 * kernel of its own. If the residual is the output of a ResidualNorm, this returns the same values
 * as a second output of that node. Its backward kernel then reads both gradients. (Asking autograd for
 * the gradient of the residual itself would miss this part; only our layers see it.)
 */
Tensor branchForResidual(const Tensor& residual) {
  using Node = torch::autograd::CppNode<ResidualNorm>;
  if (!at::GradMode::is_enabled() || !residual.requires_grad()) return residual;
  auto node = residual.grad_fn();
  if (!dynamic_cast<Node*>(node.get()) || node->num_inputs() != 1) return residual;
  Tensor branch = residual.detach();
  torch::autograd::impl::set_gradient_edge(branch, {node, node->add_input_metadata(branch)});
  return branch;
}

Tensor residualNorm(const Tensor& input, const Tensor& bias, const Tensor& residual, const Tensor& weight,
                    const Tensor& offset, const OptionalTensor& seed, double p, double epsilon) {
  checkInput(input, 128);
  int64_t width = input.size(-1);
  checkLike(bias, input, width, "bias");
  checkLike(residual, input, input.numel(), "residual");
  checkLike(weight, input, width, "weight");
  checkLike(offset, input, width, "offset");
  checkDropout(seed, p);
  Tensor x = toAligned(input), b = toAligned(bias), r = branchForResidual(toAligned(residual)), w = toAligned(weight),
         o = toAligned(offset);
  if (needsGradient({x, b, r, w, o})) return ResidualNorm::apply(x, b, r, w, o, seed, p, epsilon);
  return normalize(x, b, r, w, o, seed.value_or(Tensor()), p, epsilon, false).output;
}

const char* getActivationFile(bool tanh) { return tanh ? "activation-tanh" : "activation"; }

Tensor activate(const Tensor& input, const Tensor& bias, bool tanh) {
  Tensor output = at::empty_like(input);
  int64_t groups = input.numel() / 4;
  auto kernel = findKernel(getActivationFile(tanh), input.size(-1), input.scalar_type(), "activation_forward");
  launch(kernel, dim3(divideUp(groups, 4 * 128)), 128, read(input), read(bias), write(output),
         static_cast<long long>(groups));
  return output;
}

struct BiasGelu : torch::autograd::Function<BiasGelu> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& bias, bool tanh) {
    context->save_for_backward({input, bias});
    context->saved_data["tanh"] = tanh;
    context->saved_data["bias"] = bias.requires_grad();
    return activate(input, bias, tanh);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    rejectSecondDerivative();
    auto saved = context->get_saved_variables();
    const Tensor &input = saved[0], &bias = saved[1];
    Tensor gradient = toAligned(gradients[0]), inputGradient = at::empty_like(input);
    int64_t width = input.size(-1), rows = input.numel() / width;
    int rowsPerBlock = getRowsPerBlock(rows);
    dim3 grid(divideUp(width, 512), divideUp(rows, rowsPerBlock));
    bool hasSums = context->saved_data["bias"].toBool();
    Tensor partial = hasSums ? at::empty({grid.y, width}, input.options().dtype(at::kFloat)) : Tensor();
    const char* file = getActivationFile(context->saved_data["tanh"].toBool());
    launch(findKernel(file, width, input.scalar_type(), "activation_backward"), grid, 128, read(gradient), read(input),
           read(bias), write(inputGradient), write(partial), static_cast<int>(rows), rowsPerBlock);
    return {inputGradient, hasSums ? sumBlocks(partial, width, input.scalar_type()) : Tensor(), Tensor()};
  }
};

Tensor biasGelu(const Tensor& input, const Tensor& bias, bool tanh) {
  checkInput(input, 4);
  checkLike(bias, input, input.size(-1), "bias");
  Tensor x = toAligned(input), b = toAligned(bias);
  return needsGradient({x, b}) ? BiasGelu::apply(x, b, tanh) : activate(x, b, tanh);
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
  checkInput(input, 1);
  TORCH_CHECK(weight.dim() == 2 && weight.size(1) == input.size(-1), "expected a weight [output, ", input.size(-1), "]");
  checkLike(weight, input, weight.numel(), "weight");
  checkLike(bias, input, weight.size(0), "bias");
  return needsGradient({input, weight, bias}) ? Linear::apply(input, weight, bias) : at::linear(input, weight, bias);
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
    return {dropElements(toAligned(gradients[0]), seed, context->saved_data["p"].toDouble()), Tensor(), Tensor()};
  }
};

Tensor seededDropout(const Tensor& input, const Tensor& seed, double p) {
  TORCH_CHECK(input.is_cuda() && isFloatOrBf16(input), "expected float32 or bfloat16 on a GPU");
  checkDropout(seed, p);
  Tensor x = toAligned(input);
  return needsGradient({x}) ? SeededDropout::apply(x, seed, p) : dropElements(x, seed, p);
}

TORCH_LIBRARY_FRAGMENT(temper, library) {
  library.def(
      "residual_norm(Tensor input, Tensor bias, Tensor residual, Tensor weight, Tensor offset, Tensor? seed, "
      "float p, float epsilon) -> Tensor",
      residualNorm);
  library.def("bias_gelu(Tensor input, Tensor bias, bool tanh) -> Tensor", biasGelu);
  library.def("linear(Tensor input, Tensor weight, Tensor bias) -> Tensor", linear);
  library.def("seeded_dropout(Tensor input, Tensor seed, float p) -> Tensor", seededDropout);
}

}  // namespace
}  // namespace temper
#endif
