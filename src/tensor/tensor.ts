import { native } from "./native.js";
import { operator, registerTensorClass } from "./operator.js";
import { registerInScope } from "./scope.js";
import { type Device, type DType, dtypeCodes, getDTypeName } from "./types.js";

type Unary = (self: Tensor) => Tensor;
type TensorScalar = (self: Tensor, other: number) => Tensor;
type Reduction = (self: Tensor, dims: readonly number[] | null, keepDim: boolean) => Tensor;

/** An operator whose second argument is a tensor or a number. In-place operators return nothing. */
function tensorOrScalarOp<Result = Tensor>(name: string): (self: Tensor, other: Tensor | number) => Result {
  const withTensor = operator<(self: Tensor, other: Tensor) => Result>(name, "Tensor");
  const withNumber = operator<(self: Tensor, other: number) => Result>(name, "Scalar");
  return (self, other) => (typeof other === "number" ? withNumber(self, other) : withTensor(self, other));
}

/** The methods whose arguments are those of an operator after the tensor itself, under PyTorch's names. */
const methods = {
  add: tensorOrScalarOp("add"),
  sub: tensorOrScalarOp("sub"),
  mul: tensorOrScalarOp("mul"),
  div: tensorOrScalarOp("div"),
  eq: tensorOrScalarOp("eq"),
  ne: tensorOrScalarOp("ne"),
  lt: tensorOrScalarOp("lt"),
  le: tensorOrScalarOp("le"),
  gt: tensorOrScalarOp("gt"),
  ge: tensorOrScalarOp("ge"),
  add_: tensorOrScalarOp<void>("add_"),
  sub_: tensorOrScalarOp<void>("sub_"),
  mul_: tensorOrScalarOp<void>("mul_"),
  div_: tensorOrScalarOp<void>("div_"),
  fill_: operator<(self: Tensor, value: number) => void>("fill_", "Scalar"),
  lerp_: operator<(self: Tensor, end: Tensor, weight: Tensor) => void>("lerp_", "Tensor"),
  pow: operator<TensorScalar>("pow", "Tensor_Scalar"),
  neg: operator<Unary>("neg"),
  abs: operator<Unary>("abs"),
  exp: operator<Unary>("exp"),
  log: operator<Unary>("log"),
  sqrt: operator<Unary>("sqrt"),
  square: operator<Unary>("square"),
  reciprocal: operator<Unary>("reciprocal"),
  sign: operator<Unary>("sign"),
  tanh: operator<Unary>("tanh"),
  sigmoid: operator<Unary>("sigmoid"),
  relu: operator<Unary>("relu"),
  logicalNot: operator<Unary>("logical_not"),
  isFinite: operator<Unary>("isfinite"),
  all: operator<Unary>("all"),
  clamp: operator<(self: Tensor, low: number | null, high?: number | null) => Tensor>("clamp"),
  matmul: operator<(self: Tensor, other: Tensor) => Tensor>("matmul"),
  transpose: operator<(self: Tensor, a: number, b: number) => Tensor>("transpose", "int"),
  unsqueeze: operator<TensorScalar>("unsqueeze"),
  squeeze: operator<TensorScalar>("squeeze", "dim"),
  select: operator<(self: Tensor, dim: number, index: number) => Tensor>("select", "int"),
  narrow: operator<(self: Tensor, dim: number, start: number, length: number) => Tensor>("narrow"),
  indexSelect: operator<(self: Tensor, dim: number, index: Tensor) => Tensor>("index_select"),
  gather: operator<(self: Tensor, dim: number, index: Tensor) => Tensor>("gather"),
  softmax: operator<(self: Tensor, dim: number) => Tensor>("softmax", "int"),
  logSoftmax: operator<(self: Tensor, dim: number) => Tensor>("log_softmax", "int"),
  logsumexp: operator<(self: Tensor, dims: readonly number[]) => Tensor>("logsumexp"),
  maskedFill: operator<(self: Tensor, mask: Tensor, value: number) => Tensor>("masked_fill", "Scalar"),
  detach: operator<Unary>("detach"),
  clone: operator<Unary>("clone"),
  contiguous: operator<Unary>("contiguous"),
  /** The value of a one-element tensor. Waits for the GPU. */
  item: operator<(self: Tensor) => number>("item"),
};

/** An operator as a method. Those that work in place return the tensor itself. */
type Method<Operator> = Operator extends (self: Tensor, ...rest: infer Rest) => infer Result
  ? (...rest: Rest) => Result extends void ? Tensor : Result
  : never;

// The other methods have default values, or convert what they receive.
const copyOp = operator<(self: Tensor, source: Tensor, nonBlocking: boolean) => void>("copy_");
const reshapeOp = operator<(self: Tensor, shape: readonly number[]) => Tensor>("reshape");
const expandOp = operator<(self: Tensor, shape: readonly number[]) => Tensor>("expand");
const sumOp = operator<Reduction>("sum", "dim_IntList");
const meanOp = operator<Reduction>("mean", "dim");
const amaxOp = operator<Reduction>("amax");
const normOp =
  operator<(self: Tensor, order: number, dims: readonly number[] | null, keepDim: boolean) => Tensor>(
    "linalg_vector_norm",
  );
const argmaxOp = operator<(self: Tensor, dim: number | null, keepDim: boolean) => Tensor>("argmax");
const toDTypeOp = operator<(self: Tensor, dtype: number, nonBlocking: boolean, copy: boolean) => Tensor>("to", "dtype");
const toDeviceOp = operator<(self: Tensor, device: string, dtype: number, nonBlocking: boolean) => Tensor>(
  "to",
  "device",
);
const requiresGradOp = operator<(self: Tensor, on: boolean) => void>("requires_grad_");

/**
 * A handle to a libtorch tensor. It belongs to the `scope` that created it. The names of the
 * methods are PyTorch's. A trailing `_` means that the method works in place and returns the tensor
 * itself.
 *
 * @example
 * const y = x.mul(2).add(1); // new tensors
 * x.mul_(2); // changes x
 */
export class Tensor extends (class {} as new () => {
  readonly [Name in keyof typeof methods]: Method<(typeof methods)[Name]>;
}) {
  /** 0 after the tensor is freed. */
  handle: number;
  /** True after `keep` removed the tensor from its scope. */
  kept = false;
  #metadata: { shape: readonly number[]; dtype: DType; device: Device } | undefined;

  constructor(handle: number) {
    super();
    this.handle = handle;
    registerInScope(this);
  }

  #getMetadata(): { shape: readonly number[]; dtype: DType; device: Device } {
    if (!this.#metadata) {
      const [dtype, , device, ...shape] = native().describe(this.handle) as [number, number, number, ...number[]];
      this.#metadata = { shape, dtype: getDTypeName(dtype), device: device < 0 ? "cpu" : `cuda:${device}` };
    }
    return this.#metadata;
  }
  get shape(): readonly number[] {
    return this.#getMetadata().shape;
  }
  get dtype(): DType {
    return this.#getMetadata().dtype;
  }
  get device(): Device {
    return this.#getMetadata().device;
  }
  /** The size of a dimension. Negative dimensions count from the end. */
  size(dim: number): number {
    const size = this.shape.at(dim);
    if (size === undefined) throw new RangeError(`a tensor of shape [${this.shape}] has no dimension ${dim}`);
    return size;
  }
  get numel(): number {
    return this.shape.reduce((product, size) => product * size, 1);
  }
  get requiresGrad(): boolean {
    return native().describe(this.handle)[1] === 1;
  }

  t(): Tensor {
    return this.transpose(-2, -1);
  }
  reshape(...shape: number[]): Tensor {
    return reshapeOp(this, shape);
  }
  expand(...shape: number[]): Tensor {
    return expandOp(this, shape);
  }

  sum(dims: readonly number[] | null = null, keepDim = false): Tensor {
    return sumOp(this, dims, keepDim);
  }
  mean(dims: readonly number[] | null = null, keepDim = false): Tensor {
    return meanOp(this, dims, keepDim);
  }
  /** The L2 norm, or a norm of another order. Infinity gives the largest absolute value. */
  norm(dims: readonly number[] | null = null, keepDim = false, order = 2): Tensor {
    return normOp(this, order, dims, keepDim);
  }
  amax(dims: readonly number[], keepDim = false): Tensor {
    return amaxOp(this, dims, keepDim);
  }
  argmax(dim: number | null = null, keepDim = false): Tensor {
    return argmaxOp(this, dim, keepDim);
  }
  copy_(source: Tensor, nonBlocking = false): this {
    copyOp(this, source, nonBlocking);
    return this;
  }

  /** Converts to another dtype. Returns the tensor itself if it already has that dtype. */
  to(dtype: DType): Tensor {
    return dtype === this.dtype ? this : toDTypeOp(this, dtypeCodes[dtype], false, false);
  }
  toDevice(device: Device, nonBlocking = false): Tensor {
    return toDeviceOp(this, device, dtypeCodes[this.dtype], nonBlocking);
  }
  requiresGrad_(on = true): this {
    requiresGradOp(this, on);
    return this;
  }

  toFloat32Array(): Float32Array {
    return new Float32Array(native().read(this.handle, dtypeCodes.float32));
  }
  toInt32Array(): Int32Array {
    return new Int32Array(native().read(this.handle, dtypeCodes.int32));
  }
  toBytes(): Uint8Array {
    return new Uint8Array(native().read(this.handle, dtypeCodes[this.dtype]));
  }
  write(values: ArrayBufferView): this {
    native().write(this.handle, values);
    return this;
  }
}

for (const [name, call] of Object.entries(methods)) {
  const apply = call as (self: Tensor, ...rest: unknown[]) => unknown;
  Object.defineProperty(Tensor.prototype, name, {
    value(this: Tensor, ...rest: unknown[]): unknown {
      return apply(this, ...rest) ?? this;
    },
  });
}

registerTensorClass(Tensor);
