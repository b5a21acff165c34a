import type { Weights } from "../nn/index.js";
import { Tensor } from "../tensor/index.js";
import { type GraphBuilder, toOnnxType } from "./graph-builder.js";
import type { OnnxType } from "./onnx-file.js";
import { addSizes, isSize, type SizeOrNumber } from "./size.js";
import type { Trace, TracedCall } from "./trace.js";

class CallTranslator {
  constructor(
    readonly graph: GraphBuilder,
    readonly call: TracedCall,
    readonly getName: (tensor: Tensor) => string,
    readonly getTransposed: (tensor: Tensor) => string,
  ) {}

  get type(): OnnxType {
    return toOnnxType(this.call.results[0]!.dtype);
  }

  arg<T>(index: number): T {
    return this.call.args[index] as T;
  }

  tensor(index: number): Tensor {
    return this.arg<Tensor>(index);
  }

  name(index: number): string {
    return this.getName(this.tensor(index));
  }

  operand(index: number, type: OnnxType): string {
    const value = this.arg<Tensor | SizeOrNumber>(index);
    if (value instanceof Tensor) return this.graph.cast(this.getName(value), toOnnxType(value.dtype), type);
    return isSize(value) ? this.graph.cast(this.graph.size(value), "int64", type) : this.graph.scalar(type, value);
  }

  /** A dimension as a number from 0 on, for the rank of the first argument. */
  dimension(index: number, extra = 0): number {
    const dim = this.arg<number>(index);
    return dim < 0 ? dim + this.tensor(0).shape.length + extra : dim;
  }
}

type Translation = (call: CallTranslator) => string | string[];

const unary =
  (operator: string): Translation =>
  (call) =>
    call.graph.add(operator, [call.name(0)]);

/** Both operands have the type of the result. */
const binary =
  (operator: string): Translation =>
  (call) =>
    call.graph.add(operator, [call.operand(0, call.type), call.operand(1, call.type)]);

/** Both operands have the type of the first one. */
const comparison =
  (operator: string): Translation =>
  (call) => {
    const type = toOnnxType(call.tensor(0).dtype);
    return call.graph.add(operator, [call.operand(0, type), call.operand(1, type)]);
  };

function swapAxes(rank: number, first: number, second: number): number[] {
  return Array.from({ length: rank }, (_, i) => (i === first ? second : i === second ? first : i));
}

function addBias(call: CallTranslator, product: string, bias: Tensor | null | undefined): string {
  return bias ? call.graph.add("Add", [product, call.getName(bias)]) : product;
}

const linear: Translation = (call) =>
  addBias(call, call.graph.add("MatMul", [call.name(0), call.getTransposed(call.tensor(1))]), call.arg(2));

/** gelu(x) = x Φ(x), or its approximation with tanh. */
const gelu: Translation = (call) => {
  const { graph } = call;
  const x = call.name(0);
  const number = (value: number): string => graph.scalar("float32", value);
  const multiply = (a: string, b: string): string => graph.add("Mul", [a, b]);
  const inner =
    call.arg(1) === "tanh"
      ? graph.add("Tanh", [
          multiply(
            graph.add("Add", [x, multiply(multiply(multiply(x, x), x), number(0.044715))]),
            number(Math.sqrt(2 / Math.PI)),
          ),
        ])
      : graph.add("Erf", [graph.add("Div", [x, number(Math.SQRT2)])]);
  return multiply(multiply(x, graph.add("Add", [inner, number(1)])), number(0.5));
};

const layerNorm: Translation = (call) => {
  const [weight, bias] = [call.arg<Tensor>(2), call.arg<Tensor | null>(3)];
  const inputs = [call.name(0), call.getName(weight), ...(bias ? [call.getName(bias)] : [])];
  return call.graph.add("LayerNormalization", inputs, { axis: -1, epsilon: { float: call.arg<number>(4) } });
};

/** softmax(q kᵀ / sqrt(width) + bias) v. ONNX Runtime fuses these operators in this order. */
const attention: Translation = (call) => {
  const { graph } = call;
  const [rank, width] = [call.tensor(1).shape.length, call.tensor(0).size(-1)];
  const keys = graph.transpose(call.name(1), swapAxes(rank, rank - 2, rank - 1));
  const product = graph.add("MatMul", [call.name(0), keys]);
  const scores = addBias(call, graph.add("Div", [product, graph.scalar("float32", Math.sqrt(width))]), call.arg(3));
  return graph.add("MatMul", [graph.add("Softmax", [scores], { axis: rank - 1 }), call.name(2)]);
};

/** Reshapes. A 0 keeps a size, so that most shapes are constants, which ONNX Runtime needs to fuse operators. */
const reshape: Translation = (call) => {
  const sizes = call.arg<SizeOrNumber[]>(1);
  const { shape } = call.tensor(0);
  const [batch, length] = sizes;
  const isBatch = isSize(batch) && batch.batch === 1 && batch.length === 0 && batch.constant === 0;
  const isLength = isSize(length) && length.batch === 0 && length.length === 1 && length.constant === 0;
  const [first, second] = call.call.results[0]!.shape;
  const isKept = isBatch && isLength && shape.length > 2 && shape[0] === first && shape[1] === second;
  return call.graph.add("Reshape", [call.name(0), call.graph.sizes(isKept ? [0, 0, ...sizes.slice(2)] : sizes)]);
};

const convolution: Translation = (call) => {
  const [strides, padding, dilations] = [2, 3, 4].map((i) => call.arg<number[]>(i + 1)) as [
    number[],
    number[],
    number[],
  ];
  const inputs = [call.name(0), call.name(1), call.name(2)];
  return call.graph.add("Conv", inputs, {
    strides,
    dilations,
    pads: [...padding, ...padding],
    group: call.arg<number>(6),
  });
};

const narrow: Translation = (call) => {
  const [start, length] = [call.arg<SizeOrNumber>(2), call.arg<SizeOrNumber>(3)];
  const axes = call.graph.constant("int64", [call.dimension(1)]);
  return call.graph.add("Slice", [
    call.name(0),
    call.graph.size(start),
    call.graph.size(addSizes(start, length)),
    axes,
  ]);
};

const split: Translation = (call) => {
  const axis = call.dimension(2);
  const sizes = call.call.results.map((result) => result.size(axis));
  const inputs = [call.name(0), call.graph.constant("int64", sizes)];
  return call.graph.addMany("Split", inputs, { axis }, sizes.length);
};

const clamp: Translation = (call) => {
  const bound = (index: number): string => (call.arg(index) == null ? "" : call.operand(index, call.type));
  return call.graph.add("Clip", [call.operand(0, call.type), bound(1), bound(2)]);
};

const fullLike: Translation = (call) => {
  const shape = call.graph.add("Shape", [call.name(0)]);
  return call.graph.add("Expand", [call.operand(1, call.type), shape]);
};

const arange: Translation = (call) => {
  const end = call.arg<SizeOrNumber>(0);
  const scalar = isSize(end)
    ? call.graph.add("Squeeze", [call.graph.size(end), call.graph.constant("int64", [0])])
    : call.graph.scalar("int64", end);
  const range = call.graph.add("Range", [call.graph.scalar("int64", 0), scalar, call.graph.scalar("int64", 1)]);
  return call.graph.cast(range, "int64", call.type);
};

const sum: Translation = (call) => {
  const axes = call.graph.constant("int64", call.arg<number[]>(1));
  return call.graph.add("ReduceSum", [call.operand(0, call.type), axes], { keepdims: Number(call.arg(2)) });
};

const translations: Readonly<Record<string, Translation>> = {
  linear,
  gelu,
  layer_norm: layerNorm,
  scaled_dot_product_attention: attention,
  conv1d: convolution,
  matmul: binary("MatMul"),
  embedding: (call) => call.graph.add("Gather", [call.name(0), call.name(1)], { axis: 0 }),
  gather: (call) => call.graph.add("GatherElements", [call.name(0), call.name(2)], { axis: call.dimension(1) }),
  "add.Tensor": binary("Add"),
  "add.Scalar": binary("Add"),
  "sub.Tensor": binary("Sub"),
  "sub.Scalar": binary("Sub"),
  "mul.Tensor": binary("Mul"),
  "mul.Scalar": binary("Mul"),
  "div.Tensor": binary("Div"),
  "div.Scalar": binary("Div"),
  "eq.Scalar": comparison("Equal"),
  "lt.Scalar": comparison("Less"),
  "le.Scalar": comparison("LessOrEqual"),
  "gt.Scalar": comparison("Greater"),
  abs: unary("Abs"),
  neg: unary("Neg"),
  log: unary("Log"),
  sign: unary("Sign"),
  tanh: unary("Tanh"),
  sigmoid: unary("Sigmoid"),
  relu: unary("Relu"),
  cos: unary("Cos"),
  sin: unary("Sin"),
  ceil: unary("Ceil"),
  exp2: (call) => call.graph.add("Pow", [call.graph.scalar("float32", 2), call.name(0)]),
  clamp,
  full_like: fullLike,
  arange,
  "where.self": (call) =>
    call.graph.add("Where", [call.name(0), call.operand(1, call.type), call.operand(2, call.type)]),
  "to.dtype": (call) => call.operand(0, call.type),
  contiguous: (call) => call.name(0),
  reshape,
  "rsub.Scalar": (call) => call.graph.add("Sub", [call.operand(1, call.type), call.operand(0, call.type)]),
  expand: (call) => {
    // -1 keeps the size, which is what 1 means to ONNX.
    const shape = call.arg<SizeOrNumber[]>(1).map((size) => (size === -1 ? 1 : size));
    return call.graph.add("Expand", [call.name(0), call.graph.sizes(shape)]);
  },
  unsqueeze: (call) =>
    call.graph.add("Unsqueeze", [call.name(0), call.graph.constant("int64", [call.dimension(1, 1)])]),
  "squeeze.dim": (call) => call.graph.add("Squeeze", [call.name(0), call.graph.constant("int64", [call.dimension(1)])]),
  "select.int": (call) =>
    call.graph.add("Gather", [call.name(0), call.graph.scalar("int64", call.arg(2))], { axis: call.dimension(1) }),
  narrow,
  "transpose.int": (call) =>
    call.graph.transpose(call.name(0), swapAxes(call.tensor(0).shape.length, call.dimension(1), call.dimension(2))),
  cat: (call) => {
    const tensors = call.arg<Tensor[]>(0);
    const dim = call.arg<number>(1);
    const axis = dim < 0 ? dim + tensors[0]!.shape.length : dim;
    return call.graph.add("Concat", tensors.map(call.getName), { axis });
  },
  chunk: split,
  "sum.dim_IntList": sum,
};

export function translateTrace(trace: Trace, weights: Weights, graph: GraphBuilder): string {
  const names = new Map<Tensor, string>([...trace.inputs].map(([name, tensor]) => [tensor, name]));
  const weightNames = new Map([...weights].map(([name, tensor]) => [tensor, name]));
  const addWeight = (tensor: Tensor, name: string, isTransposed: boolean): string =>
    graph.addInitializer(isTransposed ? `${name}.transposed` : name, () => {
      const stored = isTransposed ? tensor.t().contiguous() : tensor;
      return { type: toOnnxType(stored.dtype), shape: stored.shape, bytes: stored.toBytes() };
    });
  const getName = (tensor: Tensor): string => {
    const name = names.get(tensor);
    if (name !== undefined) return name;
    const weight = weightNames.get(tensor);
    if (weight === undefined) throw new Error("the model uses a tensor that no traced operator computed");
    return addWeight(tensor, weight, false);
  };
  const getTransposed = (tensor: Tensor): string => {
    const weight = weightNames.get(tensor);
    if (weight !== undefined) return addWeight(tensor, weight, true);
    return graph.add("Transpose", [getName(tensor)], { perm: [1, 0] });
  };
  for (const call of trace.calls) {
    const translate = translations[call.operator];
    if (!translate) throw new Error(`there is no ONNX translation of the operator ${call.operator}`);
    const found = [translate(new CallTranslator(graph, call, getName, getTransposed))].flat();
    for (const [i, result] of call.results.entries()) names.set(result, found[i]!);
  }
  return getName(trace.output);
}
