// Dense layers of inference on a CPU, in float32, bfloat16 or 8 bits. oneDNN multiplies; what follows the product
// happens here in one pass, because its operators are slow (GELU) or separate (LayerNorm).
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>
#include <torch/version.h>

#include <cmath>
#include <limits>
#include <vector>

#include "vectorized.h"

// Older versions of libtorch do not have the operators.
#if TORCH_VERSION_MAJOR >= 2

namespace temper {
namespace {

using at::Tensor;

/** How the levels of a row in 8 bits become numbers: scale * (level - zero). */
struct Quantization {
  float scale, zero;
};

/**
 * Quantizes a row to levels from 0 to `maxLevel`. Each row has a scale of its own, so the result of a
 * text does not depend on the other texts of its batch.
 */
TEMPER_VECTORIZED Quantization quantizeRow(const float* row, uint8_t* levels, int64_t width, float maxLevel) {
  float low = 0, high = 0, poison = 0;
#pragma omp simd reduction(min : low) reduction(max : high) reduction(+ : poison)
  for (int64_t i = 0; i < width; i++) {
    low = row[i] < low ? row[i] : low;
    high = row[i] > high ? row[i] : high;
    poison += row[i] * 0;  // NaN for NaN and infinity, which comparisons may ignore
  }
  // A smaller range has an infinite inverse.
  if (poison != 0 || high - low < 1e-30f) {
    std::memset(levels, 0, static_cast<size_t>(width));
    return {poison != 0 ? std::numeric_limits<float>::quiet_NaN() : 0, 0};
  }
  float inverse = maxLevel / (high - low);
  // Truncation rounds down, because everything is positive: half is added to round to nearest.
  float zero = std::floor(-low * inverse + 0.5f), offset = zero + 0.5f;
#pragma omp simd
  for (int64_t i = 0; i < width; i++) {
    float level = row[i] * inverse + offset;
    levels[i] = static_cast<uint8_t>(static_cast<int32_t>(level < maxLevel ? level : maxLevel));
  }
  return {1 / inverse, zero};
}

enum class Ending { none, gelu, norm };

/** What follows the product. */
struct Layer {
  Ending ending;
  const float* bias;
  /** In 8 bits: the sum of the weights of each column. */
  const float* sums;
  /** The parameters of LayerNorm. */
  const float *weight, *offset;
  float epsilon;
};

/** x Wᵀ + b of one row and column. */
template <bool isQuantized, typename Element>
TEMPER_INLINE float computeColumn(const Layer& layer, const Element* row, int64_t column, Quantization quantization) {
  float product = toFloat(row[column]);
  if constexpr (isQuantized) product = quantization.scale * (product - quantization.zero * layer.sums[column]);
  return product + layer.bias[column];
}

/** Turns a row of the product into a row of the result. `space` has the size of a row. */
template <bool isQuantized, typename Element>
TEMPER_INLINE void finish(const Layer& layer, Element* row, const Element* residual, Quantization quantization,
                          float* space, int64_t count) {
  const Layer copy = layer;  // So that the compiler knows that the loops do not change it.
  if (copy.ending == Ending::none) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) fromFloat(computeColumn<isQuantized>(copy, row, i, quantization), row[i]);
    return;
  }
  if (copy.ending == Ending::gelu) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) fromFloat(gelu(computeColumn<isQuantized>(copy, row, i, quantization)), row[i]);
    return;
  }
  float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; i++) {
    space[i] = computeColumn<isQuantized>(copy, row, i, quantization) + toFloat(residual[i]);
    sum += space[i];
  }
  const float mean = sum / static_cast<float>(count);
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < count; i++) squares += (space[i] - mean) * (space[i] - mean);
  const float factor = 1 / std::sqrt(squares / static_cast<float>(count) + copy.epsilon);
#pragma omp simd
  for (int64_t i = 0; i < count; i++) fromFloat((space[i] - mean) * factor * copy.weight[i] + copy.offset[i], row[i]);
}

// The compiler cannot make versions of a template for the instruction sets.
TEMPER_VECTORIZED void finishRow(const Layer& layer, float* row, const float* residual, float* space, int64_t count) {
  finish<false>(layer, row, residual, {}, space, count);
}
TEMPER_VECTORIZED void finishRow(const Layer& layer, uint16_t* row, const uint16_t* residual, float* space,
                                 int64_t count) {
  finish<false>(layer, row, residual, {}, space, count);
}
TEMPER_VECTORIZED void finishQuantizedRow(const Layer& layer, float* row, const float* residual,
                                          Quantization quantization, float* space, int64_t count) {
  finish<true>(layer, row, residual, quantization, space, count);
}

/** The number of rows that a thread takes at least. */
int64_t getGrain(int64_t width) { return std::max<int64_t>(1, (1 << 14) / width); }

/** Calls `finishOne` for each row of a product. */
template <typename Element, typename Finish>
void finishRows(const Tensor& product, const Tensor& residual, const Finish& finishOne) {
  const int64_t columns = product.size(1);
  auto* rows = static_cast<Element*>(product.data_ptr());
  const auto* residuals = static_cast<const Element*>(residual.defined() ? residual.data_ptr() : nullptr);
  at::parallel_for(0, product.size(0), getGrain(columns), [&](int64_t begin, int64_t end) {
    std::vector<float> space(static_cast<size_t>(columns));
    for (int64_t i = begin; i < end; i++)
      finishOne(rows + i * columns, residuals ? residuals + i * columns : nullptr, i, space.data());
  });
}

/** The weight in oneDNN's layout. */
struct Weight {
  const Tensor& packed;
  /** In 8 bits: the scale of each column, and the sum of its weights. */
  const std::optional<Tensor>&scales, &sums;
  /** The largest level of an input in 8 bits. */
  int64_t maxLevel;

  int64_t countColumns() const { return scales ? scales->numel() : packed.size(0); }
};

Tensor multiplyNumbers(const Layer& layer, const Weight& weight, const Tensor& input, const Tensor& residual) {
  static auto multiply = c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "");
  torch::jit::Stack stack{input, weight.packed, {}, "none", c10::List<std::optional<at::Scalar>>(), {}};
  multiply.callBoxed(&stack);
  Tensor product = stack[0].toTensor();
  const int64_t columns = product.size(1);
  auto finishOne = [&](auto* row, const auto* added, int64_t, float* space) {
    finishRow(layer, row, added, space, columns);
  };
  if (product.scalar_type() == at::kFloat)
    finishRows<float>(product, residual, finishOne);
  else
    finishRows<uint16_t>(product, residual, finishOne);
  return product;
}

/** Rows in 8 bits. */
struct Levels {
  Tensor levels;
  std::vector<Quantization> quantizations;
  float maxLevel;

  Levels(int64_t rows, int64_t width, const Weight& weight)
      : levels(at::empty({rows, width}, at::kByte)),
        quantizations(static_cast<size_t>(rows)),
        maxLevel(static_cast<float>(weight.maxLevel)) {}

  void set(int64_t i, const float* row) {
    const int64_t width = levels.size(1);
    quantizations[static_cast<size_t>(i)] = quantizeRow(row, levels.data_ptr<uint8_t>() + i * width, width, maxLevel);
  }
};

/** Multiplies rows in 8 bits. `next` gets the rows of the result in 8 bits, too, unless it is null. */
Tensor multiplyLevels(const Layer& layer, const Weight& weight, const Levels& input, const Tensor& residual,
                      Levels* next = nullptr) {
  static auto multiply = c10::Dispatcher::singleton().findSchemaOrThrow("onednn::qlinear_pointwise", "");
  Tensor zeroPoints = at::zeros({weight.scales->numel()}, at::kInt);
  torch::jit::Stack stack{input.levels,
                          1.0,
                          int64_t(0),
                          weight.packed,
                          *weight.scales,
                          zeroPoints,
                          {},
                          1.0,
                          int64_t(0),
                          static_cast<int64_t>(at::kFloat),
                          "none",
                          c10::List<std::optional<at::Scalar>>(),
                          ""};
  multiply.callBoxed(&stack);
  Tensor product = stack[0].toTensor();
  const int64_t columns = product.size(1);
  finishRows<float>(product, residual, [&](float* row, const float* added, int64_t i, float* space) {
    finishQuantizedRow(layer, row, added, input.quantizations[static_cast<size_t>(i)], space, columns);
    if (next) next->set(i, row);
  });
  return product;
}

Levels quantize(const Tensor& input, const Weight& weight) {
  const int64_t width = input.size(1);
  Levels result(input.size(0), width, weight);
  const float* rows = input.data_ptr<float>();
  at::parallel_for(0, input.size(0), getGrain(width), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) result.set(i, rows + i * width);
  });
  return result;
}

/** A vector of parameters in float32. */
Tensor toVector(const std::optional<Tensor>& vector, int64_t size, const char* name) {
  if (!vector) return at::zeros({size});
  TORCH_CHECK(vector->device().is_cpu() && vector->numel() == size, "expected a ", name, " of ", size, " numbers");
  return vector->to(at::kFloat).contiguous();
}

/** A layer and the vectors that it points to. */
struct LayerTensors {
  Tensor bias, sums, weight, offset;
  Layer layer{};

  LayerTensors(Ending ending, const Weight& dense, const std::optional<Tensor>& denseBias)
      : bias(toVector(denseBias, dense.countColumns(), "bias")),
        sums(toVector(dense.sums, dense.countColumns(), "sum")) {
    layer.ending = ending;
    layer.bias = bias.data_ptr<float>();
    layer.sums = sums.data_ptr<float>();
  }

  void setNorm(const Tensor& normWeight, const Tensor& normOffset, double epsilon) {
    weight = toVector(normWeight, bias.numel(), "weight");
    offset = toVector(normOffset, bias.numel(), "offset");
    layer.weight = weight.data_ptr<float>();
    layer.offset = offset.data_ptr<float>();
    layer.epsilon = static_cast<float>(epsilon);
  }
};

Tensor toRows(const Tensor& input, const Weight& weight) {
  auto dtype = input.scalar_type();
  TORCH_CHECK(input.device().is_cpu() && (dtype == at::kFloat || (dtype == at::kBFloat16 && !weight.scales)),
              "expected float32 or bfloat16 on the CPU");
  TORCH_CHECK(weight.maxLevel > 0 && weight.maxLevel < 256, "expected levels of 8 bits");
  return input.reshape({-1, input.size(-1)}).contiguous();
}

Tensor multiply(const Layer& layer, const Weight& weight, const Tensor& rows, const Tensor& residual) {
  return weight.scales ? multiplyLevels(layer, weight, quantize(rows, weight), residual)
                       : multiplyNumbers(layer, weight, rows, residual);
}

/** Returns rows in the shape of the input. */
Tensor restoreShape(const Tensor& rows, const Tensor& input) {
  auto shape = input.sizes().vec();
  shape.back() = rows.size(1);
  return rows.reshape(shape);
}

/** x Wᵀ + b, optionally followed by GELU. */
Tensor dense(const Tensor& input, const Tensor& packed, const std::optional<Tensor>& scales,
             const std::optional<Tensor>& sums, int64_t maxLevel, const std::optional<Tensor>& bias, bool gelu) {
  Weight weight{packed, scales, sums, maxLevel};
  LayerTensors tensors(gelu ? Ending::gelu : Ending::none, weight, bias);
  return restoreShape(multiply(tensors.layer, weight, toRows(input, weight), Tensor()), input);
}

/** LayerNorm(residual + x Wᵀ + b): the end of a transformer sublayer. */
Tensor denseNorm(const Tensor& input, const Tensor& packed, const std::optional<Tensor>& scales,
                 const std::optional<Tensor>& sums, int64_t maxLevel, const Tensor& bias, const Tensor& residual,
                 const Tensor& normWeight, const Tensor& normOffset, double epsilon) {
  Weight weight{packed, scales, sums, maxLevel};
  LayerTensors tensors(Ending::norm, weight, bias);
  tensors.setNorm(normWeight, normOffset, epsilon);
  Tensor rows = toRows(input, weight), residualRows = toRows(residual, weight);
  TORCH_CHECK(residual.scalar_type() == input.scalar_type() && residualRows.size(0) == rows.size(0) &&
                  residualRows.size(1) == weight.countColumns(),
              "expected a residual of the size and type of the output");
  return restoreShape(multiply(tensors.layer, weight, rows, residualRows), input);
}

/** Rows per thread whose intermediate values stay in the cache. */
constexpr int64_t chunkRows = 256;

/** LayerNorm(x + W₂ GELU(W₁ x + b₁) + b₂): the second sublayer of a transformer layer. */
Tensor feedForward(const Tensor& input, int64_t maxLevel, const Tensor& packed1, const std::optional<Tensor>& scales1,
                   const std::optional<Tensor>& sums1, const Tensor& bias1, const Tensor& packed2,
                   const std::optional<Tensor>& scales2, const std::optional<Tensor>& sums2, const Tensor& bias2,
                   const Tensor& normWeight, const Tensor& normOffset, double epsilon) {
  Weight first{packed1, scales1, sums1, maxLevel}, second{packed2, scales2, sums2, maxLevel};
  LayerTensors inner(Ending::gelu, first, bias1), outer(Ending::norm, second, bias2);
  outer.setNorm(normWeight, normOffset, epsilon);
  Tensor rows = toRows(input, first), output = at::empty_like(rows);
  TORCH_CHECK(second.countColumns() == rows.size(1) && first.scales.has_value() == second.scales.has_value(),
              "expected two weights of the same precision that keep the size of a row");
  const int64_t step = chunkRows * at::get_num_threads();
  for (int64_t start = 0; start < rows.size(0); start += step) {
    Tensor chunk = rows.narrow(0, start, std::min(step, rows.size(0) - start)), result;
    if (first.scales) {
      Levels next(chunk.size(0), first.countColumns(), second);
      multiplyLevels(inner.layer, first, quantize(chunk, first), Tensor(), &next);
      result = multiplyLevels(outer.layer, second, next, chunk);
    } else {
      result = multiplyNumbers(outer.layer, second, multiplyNumbers(inner.layer, first, chunk, Tensor()), chunk);
    }
    output.narrow(0, start, chunk.size(0)).copy_(result);
  }
  return restoreShape(output, input);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(temper, library) {
  library.def(
      "dense(Tensor input, Tensor packed, Tensor? scales, Tensor? sums, int max_level, Tensor? bias, "
      "bool gelu=False) -> Tensor",
      dense);
  library.def(
      "dense_norm(Tensor input, Tensor packed, Tensor? scales, Tensor? sums, int max_level, Tensor bias, "
      "Tensor residual, Tensor weight, Tensor offset, float epsilon) -> Tensor",
      denseNorm);
  library.def(
      "feed_forward(Tensor input, int max_level, Tensor packed1, Tensor? scales1, Tensor? sums1, Tensor bias1, "
      "Tensor packed2, Tensor? scales2, Tensor? sums2, Tensor bias2, Tensor weight, Tensor offset, float epsilon) "
      "-> Tensor",
      feedForward);
}

}  // namespace temper

#endif
