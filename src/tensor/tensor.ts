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

const ops = {
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
  copy_: operator<(self: Tensor, source: Tensor, nonBlocking: boolean) => void>("copy_"),
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
  isfinite: operator<Unary>("isfinite"),
  logicalNot: operator<Unary>("logical_not"),
  clamp: operator<(self: Tensor, low: number | null, high: number | null) => Tensor>("clamp"),
  matmul: operator<(self: Tensor, other: Tensor) => Tensor>("matmul"),
  transpose: operator<(self: Tensor, a: number, b: number) => Tensor>("transpose", "int"),
  reshape: operator<(self: Tensor, shape: readonly number[]) => Tensor>("reshape"),
  expand: operator<(self: Tensor, shape: readonly number[]) => Tensor>("expand"),
  unsqueeze: operator<TensorScalar>("unsqueeze"),
  squeeze: operator<TensorScalar>("squeeze", "dim"),
  select: operator<(self: Tensor, dim: number, index: number) => Tensor>("select", "int"),
  narrow: operator<(self: Tensor, dim: number, start: number, length: number) => Tensor>("narrow"),
  indexSelect: operator<(self: Tensor, dim: number, index: Tensor) => Tensor>("index_select"),
  gather: operator<(self: Tensor, dim: number, index: Tensor) => Tensor>("gather"),
  sum: operator<Reduction>("sum", "dim_IntList"),
  mean: operator<Reduction>("mean", "dim"),
  norm: operator<(self: Tensor, order: number, dims: readonly number[] | null, keepDim: boolean) => Tensor>(
    "linalg_vector_norm",
  ),
  amax: operator<Reduction>("amax"),
  argmax: operator<(self: Tensor, dim: number | null, keepDim: boolean) => Tensor>("argmax"),
  all: operator<Unary>("all"),
  softmax: operator<(self: Tensor, dim: number) => Tensor>("softmax", "int"),
  logSoftmax: operator<(self: Tensor, dim: number) => Tensor>("log_softmax", "int"),
  logsumexp: operator<(self: Tensor, dims: readonly number[]) => Tensor>("logsumexp"),
  maskedFill: operator<(self: Tensor, mask: Tensor, value: number) => Tensor>("masked_fill", "Scalar"),
  toDType: operator<(self: Tensor, dtype: number, nonBlocking: boolean, copy: boolean) => Tensor>("to", "dtype"),
  toDevice: operator<(self: Tensor, device: string, dtype: number, nonBlocking: boolean) => Tensor>("to", "device"),
  detach: operator<Unary>("detach"),
  clone: operator<Unary>("clone"),
  contiguous: operator<Unary>("contiguous"),
  requiresGrad_: operator<(self: Tensor, on: boolean) => void>("requires_grad_"),
  item: operator<(self: Tensor) => number>("item"),
};

/**
 * A handle to a libtorch tensor. It belongs to the `scope` that created it. The names of the
 * methods are PyTorch's. A trailing `_` means that the method works in place and returns the tensor
 * itself.
 *
 * @example
 * const y = x.mul(2).add(1); // new tensors
 * x.mul_(2); // changes x
 */
export class Tensor {
  /** 0 after the tensor is freed. */
  handle: number;
  /** True after `keep` removed the tensor from its scope. */
  kept = false;
  #metadata: { shape: readonly number[]; dtype: DType; device: Device } | undefined;

  constructor(handle: number) {
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

  add(other: Tensor | number): Tensor {
    return ops.add(this, other);
  }
  sub(other: Tensor | number): Tensor {
    return ops.sub(this, other);
  }
  mul(other: Tensor | number): Tensor {
    return ops.mul(this, other);
  }
  div(other: Tensor | number): Tensor {
    return ops.div(this, other);
  }
  pow(exponent: number): Tensor {
    return ops.pow(this, exponent);
  }
  neg(): Tensor {
    return ops.neg(this);
  }
  abs(): Tensor {
    return ops.abs(this);
  }
  exp(): Tensor {
    return ops.exp(this);
  }
  log(): Tensor {
    return ops.log(this);
  }
  sqrt(): Tensor {
    return ops.sqrt(this);
  }
  square(): Tensor {
    return ops.square(this);
  }
  reciprocal(): Tensor {
    return ops.reciprocal(this);
  }
  sign(): Tensor {
    return ops.sign(this);
  }
  tanh(): Tensor {
    return ops.tanh(this);
  }
  sigmoid(): Tensor {
    return ops.sigmoid(this);
  }
  relu(): Tensor {
    return ops.relu(this);
  }
  logicalNot(): Tensor {
    return ops.logicalNot(this);
  }
  clamp(low: number | null, high: number | null = null): Tensor {
    return ops.clamp(this, low, high);
  }
  /** False at elements that are infinite or NaN. */
  isFinite(): Tensor {
    return ops.isfinite(this);
  }
  matmul(other: Tensor): Tensor {
    return ops.matmul(this, other);
  }

  eq(other: Tensor | number): Tensor {
    return ops.eq(this, other);
  }
  ne(other: Tensor | number): Tensor {
    return ops.ne(this, other);
  }
  lt(other: Tensor | number): Tensor {
    return ops.lt(this, other);
  }
  le(other: Tensor | number): Tensor {
    return ops.le(this, other);
  }
  gt(other: Tensor | number): Tensor {
    return ops.gt(this, other);
  }
  ge(other: Tensor | number): Tensor {
    return ops.ge(this, other);
  }

  /** Swaps the last two dimensions. */
  t(): Tensor {
    return ops.transpose(this, -2, -1);
  }
  transpose(a: number, b: number): Tensor {
    return ops.transpose(this, a, b);
  }
  reshape(...shape: number[]): Tensor {
    return ops.reshape(this, shape);
  }
  expand(...shape: number[]): Tensor {
    return ops.expand(this, shape);
  }
  unsqueeze(dim: number): Tensor {
    return ops.unsqueeze(this, dim);
  }
  squeeze(dim: number): Tensor {
    return ops.squeeze(this, dim);
  }
  select(dim: number, index: number): Tensor {
    return ops.select(this, dim, index);
  }
  narrow(dim: number, start: number, length: number): Tensor {
    return ops.narrow(this, dim, start, length);
  }
  indexSelect(dim: number, index: Tensor): Tensor {
    return ops.indexSelect(this, dim, index);
  }
  gather(dim: number, index: Tensor): Tensor {
    return ops.gather(this, dim, index);
  }

  /** The sum over the given dimensions, or over all of them. */
  sum(dims: readonly number[] | null = null, keepDim = false): Tensor {
    return ops.sum(this, dims, keepDim);
  }
  mean(dims: readonly number[] | null = null, keepDim = false): Tensor {
    return ops.mean(this, dims, keepDim);
  }
  /** The L2 norm, or a norm of another order. Infinity gives the largest absolute value. */
  norm(dims: readonly number[] | null = null, keepDim = false, order = 2): Tensor {
    return ops.norm(this, order, dims, keepDim);
  }
  amax(dims: readonly number[], keepDim = false): Tensor {
    return ops.amax(this, dims, keepDim);
  }
  argmax(dim: number | null = null, keepDim = false): Tensor {
    return ops.argmax(this, dim, keepDim);
  }
  all(): Tensor {
    return ops.all(this);
  }
  softmax(dim: number): Tensor {
    return ops.softmax(this, dim);
  }
  logSoftmax(dim: number): Tensor {
    return ops.logSoftmax(this, dim);
  }
  logsumexp(dims: readonly number[]): Tensor {
    return ops.logsumexp(this, dims);
  }
  maskedFill(mask: Tensor, value: number): Tensor {
    return ops.maskedFill(this, mask, value);
  }

  add_(other: Tensor | number): this {
    ops.add_(this, other);
    return this;
  }
  sub_(other: Tensor | number): this {
    ops.sub_(this, other);
    return this;
  }
  mul_(other: Tensor | number): this {
    ops.mul_(this, other);
    return this;
  }
  div_(other: Tensor | number): this {
    ops.div_(this, other);
    return this;
  }
  copy_(source: Tensor, nonBlocking = false): this {
    ops.copy_(this, source, nonBlocking);
    return this;
  }
  fill_(value: number): this {
    ops.fill_(this, value);
    return this;
  }
  lerp_(end: Tensor, weight: Tensor): this {
    ops.lerp_(this, end, weight);
    return this;
  }

  /** Converts to another dtype. Returns the tensor itself if it already has that dtype. */
  to(dtype: DType): Tensor {
    return dtype === this.dtype ? this : ops.toDType(this, dtypeCodes[dtype], false, false);
  }
  toDevice(device: Device, nonBlocking = false): Tensor {
    return ops.toDevice(this, device, dtypeCodes[this.dtype], nonBlocking);
  }
  /** The same values without gradient history. */
  detach(): Tensor {
    return ops.detach(this);
  }
  clone(): Tensor {
    return ops.clone(this);
  }
  contiguous(): Tensor {
    return ops.contiguous(this);
  }
  /** Makes the tensor a leaf with a gradient. */
  requiresGrad_(on = true): this {
    ops.requiresGrad_(this, on);
    return this;
  }

  /** The value of a one-element tensor. Waits for the GPU. */
  item(): number {
    return ops.item(this);
  }
  /** The values as 32-bit floats, row-major. */
  toFloat32Array(): Float32Array {
    return new Float32Array(native().read(this.handle, dtypeCodes.float32));
  }
  /** The values as 32-bit integers, row-major. */
  toInt32Array(): Int32Array {
    return new Int32Array(native().read(this.handle, dtypeCodes.int32));
  }
  /** The bytes of the values in the dtype of the tensor, row-major. */
  toBytes(): Uint8Array {
    return new Uint8Array(native().read(this.handle, dtypeCodes[this.dtype]));
  }
  /** Overwrites the values of a contiguous CPU tensor. */
  write(values: ArrayBufferView): this {
    native().write(this.handle, values);
    return this;
  }
}

registerTensorClass(Tensor);
