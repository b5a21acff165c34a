// Dense layers in 8 bits on a CPU. oneDNN multiplies; the rows are quantized and rescaled here,
// because its operator knows only one scale for all rows. With a scale per row, the result of a text
// does not depend on the other texts of its batch.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>
#include <torch/version.h>

#include <cstring>

#include "exports.h"

// Older versions of libtorch have no such operator.
#if TORCH_VERSION_MAJOR >= 2

// The compiler makes one version of a function per instruction set. The processor chooses on load.
#if defined(__x86_64__) && defined(__GLIBC__)
#define TEMPER_VECTORIZED __attribute__((optimize("O3"), target_clones("arch=skylake-avx512", "avx2", "default")))
#else
#define TEMPER_VECTORIZED
#endif

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

/**
 * The same, followed by GELU: x (1 + erf(x / √2)) / 2. erf is a quotient of polynomials between -4
 * and 4 (Eigen's coefficients), with an error of about 1e-7.
 */
TEMPER_VECTORIZED void rescaleRowWithGelu(float* row, const float* bias, float scale, int64_t width) {
  for (int64_t i = 0; i < width; i++) {
    float value = row[i] * scale + bias[i];
    float x = value * 0.70710678f;
    x = x < -4.0f ? -4.0f : x;
    x = x > 4.0f ? 4.0f : x;
    float y = x * x;
    float numerator = -2.72614225801306e-10f;
    for (float coefficient : {2.77068142495902e-08f, -2.10102402082508e-06f, -5.69250639462346e-05f,
                              -7.34990630326855e-04f, -2.95459980854025e-03f, -1.60960333262415e-02f})
      numerator = numerator * y + coefficient;
    float denominator = -1.45660718464996e-05f;
    for (float coefficient :
         {-2.13374055278905e-04f, -1.68282697438203e-03f, -7.37332916720468e-03f, -1.42647390514189e-02f})
      denominator = denominator * y + coefficient;
    row[i] = 0.5f * value * (1 + x * numerator / denominator);
  }
}

/** x Wᵀ + b, with the levels of W in oneDNN's layout and one scale per row of W. */
Tensor int8Linear(const Tensor& input, const Tensor& packed, const Tensor& scales,
                  const std::optional<Tensor>& bias, bool gelu) {
  TORCH_CHECK(input.device().is_cpu() && input.scalar_type() == at::kFloat, "expected a float32 tensor on the CPU");
  TORCH_CHECK(!bias || (bias->scalar_type() == at::kFloat && bias->is_contiguous() && bias->numel() == scales.numel()),
              "expected a bias of ", scales.numel(), " numbers in float32");
  TORCH_CHECK(!gelu || bias, "expected a bias with GELU");
  static auto multiply = c10::Dispatcher::singleton().findSchemaOrThrow("onednn::qlinear_pointwise", "");
  Tensor rows = input.reshape({-1, input.size(-1)}).contiguous();
  int64_t count = rows.size(0), width = rows.size(1);
  Tensor levels = at::empty({count, width}, rows.options().dtype(at::kByte));
  Tensor rowScales = at::empty({count}, rows.options());
  const float* source = rows.data_ptr<float>();
  auto* target = levels.data_ptr<uint8_t>();
  auto* rowScale = rowScales.data_ptr<float>();
  int64_t grain = std::max<int64_t>(1, (1 << 14) / width);
  at::parallel_for(0, count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) rowScale[i] = quantizeRow(source + i * width, target + i * width, width);
  });
  Tensor zeroPoints = at::zeros({scales.numel()}, scales.options().dtype(at::kInt));
  torch::jit::Stack stack{levels, 1.0, zeroPoint, packed, scales, zeroPoints, c10::IValue(), 1.0, int64_t(0),
                          static_cast<int64_t>(at::kFloat), "none", c10::List<std::optional<at::Scalar>>(), ""};
  multiply.callBoxed(&stack);
  Tensor product = stack[0].toTensor();
  auto* output = product.data_ptr<float>();
  const float* offsets = bias ? bias->data_ptr<float>() : nullptr;
  int64_t columns = product.size(1);
  at::parallel_for(0, count, std::max<int64_t>(1, (1 << 14) / columns), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
      (gelu ? rescaleRowWithGelu : rescaleRow)(output + i * columns, offsets, rowScale[i], columns);
  });
  auto shape = input.sizes().vec();
  shape.back() = columns;
  return product.reshape(shape);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(temper, library) {
  library.def("int8_linear(Tensor input, Tensor packed, Tensor scales, Tensor? bias, bool gelu=False) -> Tensor",
              int8Linear);
}

}  // namespace temper

#endif
