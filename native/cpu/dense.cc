// Dense layers of inference on a CPU, in float32, bfloat16 or 8 bits. oneDNN multiplies; what follows the product
// happens here in one pass, because its operators are slow (GELU) or separate (LayerNorm). gpu/layers.cc has the fused
// layers of a GPU.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "binding/checks.h"
#include "cpu/dense-rows.h"

namespace temper {
namespace {

using at::Tensor;

/** A vector of parameters in float32. */
Tensor toVector(const OptionalTensor& vector, int64_t size, const char* name) {
  if (!vector) return at::zeros({size});
  TORCH_CHECK(vector->device().is_cpu() && vector->numel() == size && at::isFloatingType(vector->scalar_type()),
              "expected a ", name, " of ", size, " numbers on the CPU, received ", vector->scalar_type(), vector->sizes());
  return vector->to(at::kFloat).contiguous();
}

/** A dense layer: its weight in oneDNN's layout, and what follows the product. */
struct Dense {
  Tensor packed;
  /** In 8 bits: the scale and the zero point of each column. */
  OptionalTensor scales;
  Tensor zeroPoints;
  /** The largest level of an input in 8 bits. */
  float maxLevel;
  int64_t columns;
  /** The vectors that the layer points to. */
  Tensor bias, sums, normWeight, normOffset;
  Layer layer{};

  Dense(Ending ending, const Tensor& packed, const OptionalTensor& scales, const OptionalTensor& sums,
        int64_t maxLevel, const OptionalTensor& bias)
      : packed(packed),
        scales(scales),
        maxLevel(static_cast<float>(maxLevel)),
        columns(countColumns(packed, scales)),
        bias(toVector(bias, columns, "bias")) {
    rejectGradients({packed, this->bias});
    layer.ending = ending;
    layer.bias = this->bias.data_ptr<float>();
    TORCH_CHECK(scales.has_value() == sums.has_value(), "expected scales and sums, or neither");
    if (!scales) return;
    TORCH_CHECK(scales->device().is_cpu() && scales->scalar_type() == at::kFloat && scales->is_contiguous(),
                "expected contiguous scales in float32 on the CPU");
    TORCH_CHECK(maxLevel > 0 && maxLevel < 256, "expected levels of 8 bits");
    this->sums = toVector(sums, columns, "sum");
    layer.sums = this->sums.data_ptr<float>();
    zeroPoints = at::zeros({columns}, at::kInt);
  }

  /** In oneDNN's layout, the columns are the first dimension of a weight, and in 8 bits the last one. */
  static int64_t countColumns(const Tensor& packed, const OptionalTensor& scales) {
    TORCH_CHECK(packed.dim() == 2 && packed.device().is_cpu() && packed.size(0) > 0 && packed.size(1) > 0,
                "expected a packed weight of two dimensions on the CPU");
    const int64_t columns = packed.size(scales ? 1 : 0);
    TORCH_CHECK(!scales || scales->numel() == columns, "expected ", columns, " scales, received ", scales->numel());
    return columns;
  }

  /** The size of an input row. */
  int64_t width() const { return packed.size(scales ? 0 : 1); }

  void setNorm(const Tensor& weight, const Tensor& offset, double epsilon) {
    rejectGradients({weight, offset});
    normWeight = toVector(weight, columns, "weight");
    normOffset = toVector(offset, columns, "offset");
    layer.weight = normWeight.data_ptr<float>();
    layer.offset = normOffset.data_ptr<float>();
    layer.epsilon = static_cast<float>(epsilon);
  }
};

/** Consecutive rows: numbers, or levels in 8 bits. More rows than `count` are computed, but not used. */
struct Chunk {
  Tensor values;
  std::vector<Quantization> quantizations;
  int64_t count;

  /** Sets a row in 8 bits. */
  template <typename Element>
  void quantize(int64_t i, const Element* row, float maxLevel) {
    const int64_t width = values.size(1);
    quantizations[static_cast<size_t>(i)] = quantizeRow(row, values.data_ptr<uint8_t>() + i * width, width, maxLevel);
  }
};

// Every thread takes some of the rows through a whole operator, in chunks whose intermediate values stay in
// its cache, and waits for the others only at the end. oneDNN compiles a kernel for each number of rows, so
// chunks have few numbers of rows.
constexpr int64_t maxChunkRows = 256;

/** Rounds the number of rows of a chunk up: to two tiles of AMX. */
int64_t roundChunk(int64_t rows) { return (rows + 31) / 32 * 32; }

/** An empty chunk in 8 bits for the input of a layer. */
Chunk createLevels(int64_t count, int64_t width) {
  const int64_t rows = roundChunk(count);
  return {at::zeros({rows, width}, at::kByte), std::vector<Quantization>(static_cast<size_t>(rows)), count};
}

template <typename Element>
Element* getRow(const Tensor& rows, int64_t row) {
  return static_cast<Element*>(rows.data_ptr()) + row * rows.size(1);
}

/** Takes consecutive rows as the input of a layer. */
template <typename Element>
Chunk takeChunk(const Dense& dense, const Tensor& rows, int64_t start, int64_t count) {
  if (!dense.scales) {
    Tensor taken = rows.narrow(0, start, count);
    const int64_t missing = roundChunk(count) - count;
    return {missing == 0 ? taken : at::constant_pad_nd(taken, {0, 0, 0, missing}), {}, count};
  }
  Chunk chunk = createLevels(count, rows.size(1));
  for (int64_t i = 0; i < count; i++) chunk.quantize(i, getRow<Element>(rows, start + i), dense.maxLevel);
  return chunk;
}

/** Finds a private operator of libtorch. Another version of libtorch may have changed its arguments. */
c10::OperatorHandle findPrivate(const char* name, size_t count) {
  auto found = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  TORCH_CHECK(found.schema().arguments().size() == count, name, " of this libtorch has ",
              found.schema().arguments().size(), " arguments instead of ", count);
  return found;
}

/** x Wᵀ: oneDNN's product of a chunk. */
Tensor multiply(const Dense& dense, const Chunk& chunk) {
  const c10::List<std::optional<at::Scalar>> none;
  torch::jit::Stack stack;
  if (dense.scales) {
    static const auto multiplyLevels = findPrivate("onednn::qlinear_pointwise", 13);
    stack = {chunk.values,     1.0,  int64_t(0), dense.packed, *dense.scales,
             dense.zeroPoints, {},   1.0,        int64_t(0),   static_cast<int64_t>(at::kFloat),
             "none",           none, ""};
    multiplyLevels.callBoxed(&stack);
  } else {
    static const auto multiplyNumbers = findPrivate("mkldnn::_linear_pointwise", 6);
    stack = {chunk.values, dense.packed, {}, "none", none, {}};
    multiplyNumbers.callBoxed(&stack);
  }
  Tensor product = stack.at(0).toTensor();
  // Everything that follows reads the product without looking at its size again.
  const auto dtype = dense.scales ? at::kFloat : chunk.values.scalar_type();
  TORCH_CHECK(product.dim() == 2 && product.size(0) == chunk.values.size(0) && product.size(1) == dense.columns &&
                  product.scalar_type() == dtype && product.is_contiguous(),
              "oneDNN returned ", product.scalar_type(), product.sizes(), " instead of ", dense.columns, " columns");
  return product;
}

/** Turns the product of a chunk into rows of the result. There may be no residual. */
template <typename Element>
void finishChunk(const Dense& dense, const Chunk& chunk, const Tensor& product, const Element* residual, Element* row) {
  std::vector<float> space(static_cast<size_t>(dense.columns));
  for (int64_t i = 0; i < chunk.count; i++) {
    if (dense.scales)
      finishQuantizedRow(dense.layer, getRow<float>(product, i), residual, chunk.quantizations[static_cast<size_t>(i)],
                         space.data(), dense.columns, row);
    else
      finishRow(dense.layer, getRow<Element>(product, i), residual, space.data(), dense.columns, row);
    row += dense.columns;
    if (residual) residual += dense.columns;
  }
}

/** Computes a layer whose result is the input of another one, in the place of the product or in 8 bits. */
template <typename Element>
Chunk computeInner(const Dense& dense, const Chunk& chunk) {
  Tensor product = multiply(dense, chunk);
  if (!dense.scales) {
    finishChunk<Element>(dense, chunk, product, nullptr, getRow<Element>(product, 0));
    return {product, {}, chunk.count};
  }
  Chunk result = createLevels(chunk.count, dense.columns);
  for (int64_t i = 0; i < chunk.count; i++) {
    auto* row = getRow<float>(product, i);
    finishQuantizedRow(dense.layer, row, static_cast<float*>(nullptr), chunk.quantizations[static_cast<size_t>(i)],
                       nullptr, dense.columns, row);
    result.quantize(i, row, dense.maxLevel);
  }
  return result;
}

/** Calls `computeChunk` with the first row and the number of rows of each chunk, on all threads. */
template <typename Compute>
void forEachChunk(int64_t rows, const Compute& computeChunk) {
  constexpr int64_t step = 16;
  at::parallel_for(0, (rows + step - 1) / step, 2, [&](int64_t begin, int64_t end) {
    at::AutoDispatchBelowADInplaceOrView withoutGradients;
#ifdef _OPENMP
    if (omp_in_parallel()) omp_set_num_threads(1);  // oneDNN plans for the threads of this task.
#endif
    const int64_t stop = std::min(end * step, rows);
    for (int64_t start = begin * step; start < stop; start += maxChunkRows)
      computeChunk(start, std::min(maxChunkRows, stop - start));
  });
}

Tensor toRows(const Tensor& input) {
  rejectGradients({input});
  TORCH_CHECK(input.device().is_cpu() && input.layout() == at::kStrided && isFloatOrBf16(input) && input.dim() > 0,
              "expected float32 or bfloat16 on the CPU");
  TORCH_CHECK(input.size(-1) > 0, "expected rows with at least one number");
  return input.reshape({-1, input.size(-1)}).contiguous();
}

/** Calls `function` with a null pointer of the type of the elements. */
template <typename Function>
void withElementType(const Tensor& tensor, const Function& function) {
  if (tensor.scalar_type() == at::kFloat)
    function(static_cast<float*>(nullptr));
  else
    function(static_cast<uint16_t*>(nullptr));
}

/** Refuses rows that a weight cannot multiply. */
void checkInput(const Dense& dense, const Tensor& rows) {
  TORCH_CHECK(rows.size(1) == dense.width(), "expected rows of ", dense.width(), " numbers, received ", rows.size(1));
  TORCH_CHECK(dense.scales || dense.packed.scalar_type() == rows.scalar_type(), "expected a weight in ",
              rows.scalar_type(), ", received ", dense.packed.scalar_type());
}

/** Computes a layer, whose residual may be undefined. */
Tensor computeLayer(const Dense& dense, const Tensor& rows, const Tensor& residual) {
  checkInput(dense, rows);
  Tensor output = at::empty({rows.size(0), dense.columns}, rows.options());
  withElementType(rows, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    forEachChunk(rows.size(0), [&](int64_t start, int64_t count) {
      const Element* added = residual.defined() ? getRow<Element>(residual, start) : nullptr;
      Chunk chunk = takeChunk<Element>(dense, rows, start, count);
      finishChunk(dense, chunk, multiply(dense, chunk), added, getRow<Element>(output, start));
    });
  });
  return output;
}

/** Returns rows in the shape of the input. */
Tensor restoreShape(const Tensor& rows, const Tensor& input) {
  auto shape = input.sizes().vec();
  shape.back() = rows.size(1);
  return rows.reshape(shape);
}

/** x Wᵀ + b, optionally followed by GELU. */
Tensor dense(const Tensor& input, const Tensor& packed, const OptionalTensor& scales,
             const OptionalTensor& sums, int64_t maxLevel, const OptionalTensor& bias, bool gelu) {
  Dense dense(gelu ? Ending::gelu : Ending::none, packed, scales, sums, maxLevel, bias);
  return restoreShape(computeLayer(dense, toRows(input), Tensor()), input);
}

/** LayerNorm(residual + x Wᵀ + b): the end of a transformer sublayer. */
Tensor denseNorm(const Tensor& input, const Tensor& packed, const OptionalTensor& scales,
                 const OptionalTensor& sums, int64_t maxLevel, const Tensor& bias, const Tensor& residual,
                 const Tensor& normWeight, const Tensor& normOffset, double epsilon) {
  Dense dense(Ending::norm, packed, scales, sums, maxLevel, bias);
  dense.setNorm(normWeight, normOffset, epsilon);
  Tensor rows = toRows(input), residualRows = toRows(residual);
  TORCH_CHECK(residual.scalar_type() == input.scalar_type() && residualRows.size(0) == rows.size(0) &&
                  residualRows.size(1) == dense.columns,
              "expected a residual of the size and type of the output");
  return restoreShape(computeLayer(dense, rows, residualRows), input);
}

/** LayerNorm(x + W₂ GELU(W₁ x + b₁) + b₂): the second sublayer of a transformer layer. */
Tensor feedForward(const Tensor& input, int64_t maxLevel, const Tensor& packed1, const OptionalTensor& scales1,
                   const OptionalTensor& sums1, const Tensor& bias1, const Tensor& packed2,
                   const OptionalTensor& scales2, const OptionalTensor& sums2, const Tensor& bias2,
                   const Tensor& normWeight, const Tensor& normOffset, double epsilon) {
  Dense inner(Ending::gelu, packed1, scales1, sums1, maxLevel, bias1);
  Dense outer(Ending::norm, packed2, scales2, sums2, maxLevel, bias2);
  outer.setNorm(normWeight, normOffset, epsilon);
  Tensor rows = toRows(input), output = at::empty_like(rows);
  checkInput(inner, rows);
  TORCH_CHECK(outer.width() == inner.columns, "expected a second weight for rows of ", inner.columns, " numbers");
  TORCH_CHECK(inner.scales || outer.packed.scalar_type() == rows.scalar_type(), "expected two weights of one dtype");
  TORCH_CHECK(outer.columns == rows.size(1) && inner.scales.has_value() == outer.scales.has_value(),
              "expected two weights of the same precision that keep the size of a row");
  withElementType(rows, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    forEachChunk(rows.size(0), [&](int64_t start, int64_t count) {
      Chunk hidden = computeInner<Element>(inner, takeChunk<Element>(inner, rows, start, count));
      finishChunk(outer, hidden, multiply(outer, hidden), getRow<Element>(rows, start), getRow<Element>(output, start));
    });
  });
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
