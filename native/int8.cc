// Dense layers in 8 bits on a CPU. oneDNN multiplies; the rows are quantized and rescaled here,
// because its operator knows only one scale for all rows. With a scale per row, the result of a text
// does not depend on the other texts of its batch.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>
#include <torch/version.h>

#include <cmath>
#include <cstring>

#include "vectorized.h"

// Older versions of libtorch have no such operator.
#if TORCH_VERSION_MAJOR >= 2

namespace temper {
namespace {

using at::Tensor;

/**
 * Seven bits, from -63 to 63. Without VNNI, a processor adds two products in 16 bits, and
 * 2 * 127 * 127 is the largest sum that fits. So every processor gives the same sums.
 */
constexpr float maxLevel = 63;
constexpr int64_t zeroPoint = 64;

/** Quantizes a row to levels around the zero point. Returns its scale. */
TEMPER_VECTORIZED float quantizeRow(const float* row, uint8_t* levels, int64_t width) {
  uint32_t largest = 0;  // The bits of positive floats have the order of the floats. NaN is the largest.
  for (int64_t i = 0; i < width; i++) {
    uint32_t bits;
    std::memcpy(&bits, row + i, sizeof bits);
    bits &= 0x7fffffff;
    largest = bits > largest ? bits : largest;
  }
  float maximum;
  std::memcpy(&maximum, &largest, sizeof maximum);
  if (maximum == 0) {
    std::memset(levels, zeroPoint, static_cast<size_t>(width));
    return 0;
  }
  float inverse = maxLevel / maximum;
  // Truncation rounds down, because everything is positive: half is added to round to nearest.
  for (int64_t i = 0; i < width; i++)
    levels[i] = static_cast<uint8_t>(static_cast<int32_t>(row[i] * inverse + (zeroPoint + 0.5f)));
  return maximum / maxLevel;
}

TEMPER_VECTORIZED void rescaleRow(float* row, const float* bias, float scale, int64_t width) {
  if (bias)
    for (int64_t i = 0; i < width; i++) row[i] = row[i] * scale + bias[i];
  else
    for (int64_t i = 0; i < width; i++) row[i] *= scale;
}

TEMPER_VECTORIZED void rescaleRowWithGelu(float* row, const float* bias, float scale, int64_t width) {
#pragma omp simd
  for (int64_t i = 0; i < width; i++) row[i] = gelu(row[i] * scale + (bias ? bias[i] : 0));
}

/** The parameters of LayerNorm. */
struct Norm {
  const float *weight, *offset;
  float epsilon;
};

/** LayerNorm(residual + x Wᵀ + b) of a row. */
TEMPER_VECTORIZED void rescaleRowWithNorm(float* row, const float* bias, float scale, const float* residual,
                                          const Norm& norm, int64_t width) {
  float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < width; i++) {
    row[i] = row[i] * scale + bias[i] + residual[i];
    sum += row[i];
  }
  float mean = sum / static_cast<float>(width);
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < width; i++) squares += (row[i] - mean) * (row[i] - mean);
  float factor = 1 / std::sqrt(squares / static_cast<float>(width) + norm.epsilon);
  const float *weight = norm.weight, *offset = norm.offset;
#pragma omp simd
  for (int64_t i = 0; i < width; i++) row[i] = (row[i] - mean) * factor * weight[i] + offset[i];
}

/** The number of rows that a thread takes at least. */
int64_t getGrain(int64_t width) { return std::max<int64_t>(1, (1 << 14) / width); }

void checkVector(const Tensor& vector, int64_t size, const char* name) {
  TORCH_CHECK(vector.device().is_cpu() && vector.scalar_type() == at::kFloat && vector.is_contiguous() &&
                  vector.numel() == size,
              "expected a ", name, " of ", size, " numbers in float32");
}

/**
 * x Wᵀ, with the levels of W in oneDNN's layout and one scale per row of W. `finish` gets each row of
 * the product with the scale of its input, while it is in the cache.
 */
template <typename Finish>
Tensor multiplyRows(const Tensor& input, const Tensor& packed, const Tensor& scales, const Finish& finish) {
  TORCH_CHECK(input.device().is_cpu() && input.scalar_type() == at::kFloat, "expected a float32 tensor on the CPU");
  static auto multiply = c10::Dispatcher::singleton().findSchemaOrThrow("onednn::qlinear_pointwise", "");
  Tensor rows = input.reshape({-1, input.size(-1)}).contiguous();
  int64_t count = rows.size(0), width = rows.size(1);
  Tensor levels = at::empty({count, width}, rows.options().dtype(at::kByte));
  Tensor rowScales = at::empty({count}, rows.options());
  const float* source = rows.data_ptr<float>();
  auto* target = levels.data_ptr<uint8_t>();
  auto* rowScale = rowScales.data_ptr<float>();
  at::parallel_for(0, count, getGrain(width), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) rowScale[i] = quantizeRow(source + i * width, target + i * width, width);
  });
  Tensor zeroPoints = at::zeros({scales.numel()}, scales.options().dtype(at::kInt));
  torch::jit::Stack stack{levels, 1.0, zeroPoint, packed, scales, zeroPoints, c10::IValue(), 1.0, int64_t(0),
                          static_cast<int64_t>(at::kFloat), "none", c10::List<std::optional<at::Scalar>>(), ""};
  multiply.callBoxed(&stack);
  Tensor product = stack[0].toTensor();
  auto* output = product.data_ptr<float>();
  int64_t columns = product.size(1);
  at::parallel_for(0, count, getGrain(columns), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) finish(output + i * columns, i, rowScale[i]);
  });
  auto shape = input.sizes().vec();
  shape.back() = columns;
  return product.reshape(shape);
}

/** x Wᵀ + b, optionally followed by GELU. */
Tensor int8Linear(const Tensor& input, const Tensor& packed, const Tensor& scales,
                  const std::optional<Tensor>& bias, bool gelu) {
  int64_t columns = scales.numel();
  if (bias) checkVector(*bias, columns, "bias");
  const float* offsets = bias ? bias->data_ptr<float>() : nullptr;
  return multiplyRows(input, packed, scales, [&](float* row, int64_t, float scale) {
    (gelu ? rescaleRowWithGelu : rescaleRow)(row, offsets, scale, columns);
  });
}

/** LayerNorm(residual + x Wᵀ + b): the end of a transformer sublayer. */
Tensor int8LinearNorm(const Tensor& input, const Tensor& packed, const Tensor& scales, const Tensor& bias,
                      const Tensor& residual, const Tensor& weight, const Tensor& offset, double epsilon) {
  int64_t columns = scales.numel();
  checkVector(bias, columns, "bias");
  checkVector(weight, columns, "weight");
  checkVector(offset, columns, "offset");
  Tensor residualRows = residual.reshape({-1, columns}).contiguous();
  checkVector(residualRows, input.numel() / input.size(-1) * columns, "residual");
  const float *biases = bias.data_ptr<float>(), *residuals = residualRows.data_ptr<float>();
  Norm norm{weight.data_ptr<float>(), offset.data_ptr<float>(), static_cast<float>(epsilon)};
  return multiplyRows(input, packed, scales, [&](float* row, int64_t i, float scale) {
    rescaleRowWithNorm(row, biases, scale, residuals + i * columns, norm, columns);
  });
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(temper, library) {
  library.def("int8_linear(Tensor input, Tensor packed, Tensor scales, Tensor? bias, bool gelu=False) -> Tensor",
              int8Linear);
  library.def(
      "int8_linear_norm(Tensor input, Tensor packed, Tensor scales, Tensor bias, Tensor residual, Tensor weight, "
      "Tensor offset, float epsilon) -> Tensor",
      int8LinearNorm);
}

}  // namespace temper

#endif
