// Dense layers of inference on a CPU, in float32, bfloat16 or 8 bits, together with what follows the product.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>
#include <torch/version.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "vectorized.h"

#if TORCH_VERSION_MAJOR >= 2
#include <ATen/native/CPUBlas.h>

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
  if (poison != 0 || low == high) {
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
  const float* bias;
  /** For levels: the scale of each column, and the sum of its weights. */
  const float *scales, *sums;
  Ending ending;
  /** The parameters of LayerNorm. */
  const float *weight, *offset;
  float epsilon;
};

/** What the product has computed: numbers, sums of levels, or sums of levels times the scale of the column. */
enum class Product { numbers, levels, scaledLevels };

/** Columns of one row, from `first` on. */
template <Product product, typename Sum, typename Element>
struct Columns {
  const Sum* sums;
  Element* target;
  /** The row to add before LayerNorm, and space for a row. LayerNorm needs all columns. */
  const Element* residual;
  float* space;
  Quantization quantization;
  int64_t first, count;
};

/** x Wᵀ + b of one row and column. */
template <Product product, typename Sum>
TEMPER_INLINE float computeColumn(Sum sum, float bias, float columnScale, float weightSum, float scale, float zero) {
  float value = toFloat(sum);
  if constexpr (product == Product::levels) value *= columnScale;
  if constexpr (product != Product::numbers) value = scale * (value - zero * weightSum);
  return value + bias;
}

/** The columns of x Wᵀ + b, followed by GELU or by the residual and LayerNorm. */
template <Product product, typename Sum, typename Element>
TEMPER_INLINE void finish(const Layer& layer, const Columns<product, Sum, Element>& columns) {
  const float scale = columns.quantization.scale, zero = columns.quantization.zero;
  const int64_t count = columns.count;
  const float *bias = layer.bias + columns.first, *scales = layer.scales + columns.first,
              *weightSums = layer.sums + columns.first;
  const Sum* sums = columns.sums;
  Element* target = columns.target + columns.first;
  if (layer.ending == Ending::none) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
      fromFloat(computeColumn<product>(sums[i], bias[i], scales[i], weightSums[i], scale, zero), target[i]);
    return;
  }
  if (layer.ending == Ending::gelu) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
      fromFloat(gelu(computeColumn<product>(sums[i], bias[i], scales[i], weightSums[i], scale, zero)), target[i]);
    return;
  }
  float* row = columns.space;
  const Element* residual = columns.residual;
  float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; i++) {
    float value = computeColumn<product>(sums[i], bias[i], scales[i], weightSums[i], scale, zero);
    row[i] = value + toFloat(residual[i]);
    sum += row[i];
  }
  const float mean = sum / static_cast<float>(count);
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < count; i++) squares += (row[i] - mean) * (row[i] - mean);
  const float factor = 1 / std::sqrt(squares / static_cast<float>(count) + layer.epsilon);
  const float *weight = layer.weight, *offset = layer.offset;
#pragma omp simd
  for (int64_t i = 0; i < count; i++) fromFloat((row[i] - mean) * factor * weight[i] + offset[i], target[i]);
}

// The compiler cannot make versions of a template for the instruction sets.
TEMPER_VECTORIZED void finishColumns(const Layer& layer, const Columns<Product::numbers, float, float>& columns) {
  finish(layer, columns);
}
TEMPER_VECTORIZED void finishColumns(const Layer& layer, const Columns<Product::numbers, float, uint16_t>& columns) {
  finish(layer, columns);
}
TEMPER_VECTORIZED void finishColumns(const Layer& layer, const Columns<Product::numbers, uint16_t, uint16_t>& columns) {
  finish(layer, columns);
}
TEMPER_VECTORIZED void finishColumns(const Layer& layer, const Columns<Product::levels, int32_t, float>& columns) {
  finish(layer, columns);
}
TEMPER_VECTORIZED void finishColumns(const Layer& layer, const Columns<Product::scaledLevels, float, float>& columns) {
  finish(layer, columns);
}

/** A weight in blocks [output / 64, input / group, 64, group], or in oneDNN's layout. */
struct Weight {
  const Tensor& blocks;
  /** In 8 bits: the scale of each column, and the sum of its weights. */
  const std::optional<Tensor>&scales, &sums;
};

template <typename Element>
const Element* getRow(const Tensor& rows, int64_t i) {
  return rows.defined() ? static_cast<const Element*>(rows.data_ptr()) + i * rows.size(1) : nullptr;
}

#ifdef CPUBLAS_BRGEMM_U8I8I32
/** A product has blocks of this many rows and columns, so that oneDNN compiles few kernels. */
constexpr int64_t blockRows = 64;
constexpr int64_t blockColumns = 64;

/** Multiplies blocks of type `Left` and `Right`, and finishes them while they are in the cache. */
template <Product product, typename Left, typename Right, typename Sum, typename Element>
Tensor multiplyBlocks(const Layer& layer, const Tensor& input, const Tensor& weight, const Tensor& residual,
                      int64_t columns) {
  constexpr bool isQuantized = product == Product::levels;
  constexpr bool isGrouped = !std::is_same_v<Left, float>;
  constexpr auto dtype = c10::CppTypeToScalarType<Right>::value;
  const int64_t rows = input.size(0), width = input.size(1);
  TORCH_CHECK(!isGrouped || at::native::cpublas::could_pack(dtype), "this processor has no instructions for blocks");
  TORCH_CHECK(weight.scalar_type() == dtype && weight.is_contiguous() && weight.size(2) == blockColumns &&
                  weight.size(1) * weight.size(3) == width && weight.size(0) * blockColumns >= columns,
              "expected blocks of weights for ", width, " inputs and ", columns, " outputs");
  const Right* blocks = weight.data_ptr<Right>();
  Tensor output = at::empty({rows, columns}, input.options());
  // LayerNorm needs whole rows.
  const int64_t groupColumns = layer.ending == Ending::norm ? weight.size(0) * blockColumns : blockColumns;
  at::parallel_for(0, (rows + blockRows - 1) / blockRows, 1, [&](int64_t begin, int64_t end) {
    std::vector<Left> copy(blockRows * width);
    std::vector<Sum> sums(blockRows * groupColumns);
    std::vector<float> space(columns);
    Quantization quantizations[blockRows] = {};
    for (int64_t block = begin; block < end; block++) {
      const int64_t start = block * blockRows, count = std::min(blockRows, rows - start);
      const Element* source = getRow<Element>(input, start);
      const Left* left = copy.data();
      if constexpr (isQuantized) {
        for (int64_t i = 0; i < count; i++)
          quantizations[i] = quantizeRow(source + i * width, copy.data() + i * width, width, 255);
      } else if (count < blockRows) {
        std::memcpy(copy.data(), source, static_cast<size_t>(count * width) * sizeof(Element));
      } else {
        left = reinterpret_cast<const Left*>(source);
      }
      for (int64_t group = 0; group < columns; group += groupColumns) {
        for (int64_t i = 0; i < groupColumns; i += blockColumns)
          at::native::cpublas::brgemm(blockRows, blockColumns, width, width, blockColumns, groupColumns, false, left,
                                      blocks + (group + i) * width, sums.data() + i, isGrouped);
        for (int64_t i = 0; i < count; i++)
          finishColumns(
              layer, Columns<product, Sum, Element>{sums.data() + i * groupColumns,
                                                    const_cast<Element*>(getRow<Element>(output, start + i)),
                                                    getRow<Element>(residual, start + i), space.data(),
                                                    quantizations[i], group, std::min(groupColumns, columns - group)});
      }
    }
    at::native::cpublas::brgemm_release(isGrouped);
  });
  return output;
}

Tensor multiplyBlocks(const Layer& layer, const Weight& weight, const Tensor& input, const Tensor& residual,
                      int64_t columns) {
  auto multiply = weight.scales ? multiplyBlocks<Product::levels, uint8_t, int8_t, int32_t, float>
                  : input.scalar_type() == at::kFloat
                      ? multiplyBlocks<Product::numbers, float, float, float, float>
                      : multiplyBlocks<Product::numbers, at::BFloat16, at::BFloat16, float, uint16_t>;
  return multiply(layer, input, weight.blocks, residual, columns);
}
#endif

/** The number of rows that a thread takes at least. */
int64_t getGrain(int64_t width) { return std::max<int64_t>(1, (1 << 14) / width); }

/** Finishes the rows of a product in place. */
template <Product product, typename Element>
void finishRows(const Layer& layer, const Tensor& output, const Tensor& residual, const Quantization* quantizations) {
  const int64_t columns = output.size(1);
  at::parallel_for(0, output.size(0), getGrain(columns), [&](int64_t begin, int64_t end) {
    std::vector<float> space(columns);
    for (int64_t i = begin; i < end; i++) {
      auto* row = const_cast<Element*>(getRow<Element>(output, i));
      finishColumns(layer,
                    Columns<product, Element, Element>{row, row, getRow<Element>(residual, i), space.data(),
                                                       quantizations ? quantizations[i] : Quantization{}, 0, columns});
    }
  });
}

/** Multiplies with oneDNN's layer in float32 or bfloat16. */
Tensor multiplyNumbers(const Layer& layer, const Weight& weight, const Tensor& input, const Tensor& residual) {
  static auto multiply = c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "");
  torch::jit::Stack stack{input,        weight.blocks, c10::IValue(), "none", c10::List<std::optional<at::Scalar>>(),
                          c10::IValue()};
  multiply.callBoxed(&stack);
  Tensor output = stack[0].toTensor();
  if (output.scalar_type() == at::kFloat)
    finishRows<Product::numbers, float>(layer, output, residual, nullptr);
  else
    finishRows<Product::numbers, uint16_t>(layer, output, residual, nullptr);
  return output;
}

/**
 * Multiplies with oneDNN's layer in 8 bits. Here the input has seven bits, because processors without
 * VNNI add two products in 16 bits.
 */
Tensor multiplyLevels(const Layer& layer, const Weight& weight, const Tensor& input, const Tensor& residual) {
  static auto multiply = c10::Dispatcher::singleton().findSchemaOrThrow("onednn::qlinear_pointwise", "");
  const int64_t rows = input.size(0), width = input.size(1);
  Tensor levels = at::empty({rows, width}, input.options().dtype(at::kByte));
  std::vector<Quantization> quantizations(static_cast<size_t>(rows));
  auto* target = levels.data_ptr<uint8_t>();
  at::parallel_for(0, rows, getGrain(width), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
      quantizations[i] = quantizeRow(getRow<float>(input, i), target + i * width, width, 127);
  });
  Tensor zeroPoints = at::zeros({weight.scales->numel()}, at::kInt);
  torch::jit::Stack stack{levels,
                          1.0,
                          int64_t(0),
                          weight.blocks,
                          *weight.scales,
                          zeroPoints,
                          c10::IValue(),
                          1.0,
                          int64_t(0),
                          static_cast<int64_t>(at::kFloat),
                          "none",
                          c10::List<std::optional<at::Scalar>>(),
                          ""};
  multiply.callBoxed(&stack);
  Tensor output = stack[0].toTensor();
  finishRows<Product::scaledLevels, float>(layer, output, residual, quantizations.data());
  return output;
}

/** A vector of parameters in float32. */
Tensor toVector(const std::optional<Tensor>& vector, int64_t size, const char* name) {
  if (!vector) return at::zeros({size});
  TORCH_CHECK(vector->device().is_cpu() && vector->numel() == size, "expected a ", name, " of ", size, " numbers");
  return vector->to(at::kFloat).contiguous();
}

Tensor run(Layer layer, const Weight& weight, const Tensor& input, const Tensor& residual,
           const std::optional<Tensor>& bias) {
  auto dtype = input.scalar_type();
  TORCH_CHECK(input.device().is_cpu() && (dtype == at::kFloat || (dtype == at::kBFloat16 && !weight.scales)),
              "expected float32 or bfloat16 on the CPU");
  const bool isBlocked = weight.blocks.dim() == 4;
  const int64_t columns = bias            ? bias->numel()
                          : weight.scales ? weight.scales->numel()
                                          : weight.blocks.size(0) * (isBlocked ? weight.blocks.size(2) : 1);
  Tensor biases = toVector(bias, columns, "bias");
  Tensor scales = toVector(weight.scales, columns, "scale"), sums = toVector(weight.sums, columns, "sum");
  layer.bias = biases.data_ptr<float>();
  layer.scales = scales.data_ptr<float>();
  layer.sums = sums.data_ptr<float>();
  Tensor rows = input.reshape({-1, input.size(-1)}).contiguous(), residualRows;
  if (residual.defined()) {
    TORCH_CHECK(residual.scalar_type() == dtype && residual.numel() == rows.size(0) * columns,
                "expected a residual of the size and type of the output");
    residualRows = residual.reshape({-1, columns}).contiguous();
  }
  auto shape = input.sizes().vec();
  shape.back() = columns;
#ifdef CPUBLAS_BRGEMM_U8I8I32
  if (isBlocked) return multiplyBlocks(layer, weight, rows, residualRows, columns).reshape(shape);
#endif
  TORCH_CHECK(!isBlocked, "this version of libtorch has no blocks");
  return (weight.scales ? multiplyLevels : multiplyNumbers)(layer, weight, rows, residualRows).reshape(shape);
}

/** x Wᵀ + b, optionally followed by GELU. */
Tensor dense(const Tensor& input, const Tensor& blocks, const std::optional<Tensor>& scales,
             const std::optional<Tensor>& sums, const std::optional<Tensor>& bias, bool gelu) {
  Layer layer{};
  layer.ending = gelu ? Ending::gelu : Ending::none;
  return run(layer, {blocks, scales, sums}, input, Tensor(), bias);
}

/** LayerNorm(residual + x Wᵀ + b): the end of a transformer sublayer. */
Tensor denseNorm(const Tensor& input, const Tensor& blocks, const std::optional<Tensor>& scales,
                 const std::optional<Tensor>& sums, const Tensor& bias, const Tensor& residual, const Tensor& weight,
                 const Tensor& offset, double epsilon) {
  Tensor weights = toVector(weight, bias.numel(), "weight"), offsets = toVector(offset, bias.numel(), "offset");
  Layer layer{};
  layer.ending = Ending::norm;
  layer.weight = weights.data_ptr<float>();
  layer.offset = offsets.data_ptr<float>();
  layer.epsilon = static_cast<float>(epsilon);
  return run(layer, {blocks, scales, sums}, input, residual, bias);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(temper, library) {
  library.def(
      "dense(Tensor input, Tensor blocks, Tensor? scales, Tensor? sums, Tensor? bias, bool gelu=False) -> Tensor",
      dense);
  library.def(
      "dense_norm(Tensor input, Tensor blocks, Tensor? scales, Tensor? sums, Tensor bias, Tensor residual, "
      "Tensor weight, Tensor offset, float epsilon) -> Tensor",
      denseNorm);
}

}  // namespace temper

#endif
