import { native } from "./native.js";
import { operator } from "./operator.js";
import { registerInScope } from "./scope.js";
import { type Device, type DType, dtypeCodes, getDTypeName } from "./types.js";

type Unary = (self: Tensor) => Tensor;
type Binary = (self: Tensor, other: Tensor) => Tensor;
type TensorScalar = (self: Tensor, other: number) => Tensor;
type Reduction = (self: Tensor, dims: readonly number[] | null, keepDimension: boolean) => Tensor;

/** An operator with a tensor and a number form. */
function tensorOrScalarOp(name: string): (self: Tensor, other: Tensor | number) => Tensor {
  const withTensor = operator<Binary>(name, "Tensor");
  const withNumber = operator<TensorScalar>(name, "Scalar");
  return (self, other) => (typeof other === "number" ? withNumber(self, other) : withTensor(self, other));
}

/** The same, writing into its first argument. */
function inPlaceTensorOrScalarOp(name: string): (self: Tensor, other: Tensor | number) => void {
  const withTensor = operator<(self: Tensor, other: Tensor) => void>(name, "Tensor");
  const withNumber = operator<(self: Tensor, other: number) => void>(name, "Scalar");
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
  addInto: inPlaceTensorOrScalarOp("add_"),
  subInto: inPlaceTensorOrScalarOp("sub_"),
  mulInto: inPlaceTensorOrScalarOp("mul_"),
  divInto: inPlaceTensorOrScalarOp("div_"),
  copyInto: operator<(self: Tensor, source: Tensor, nonBlocking: boolean) => void>("copy_"),
  fillInto: operator<(self: Tensor, value: number) => void>("fill_", "Scalar"),
  lerpInto: operator<(self: Tensor, end: Tensor, weight: Tensor) => void>("lerp_", "Tensor"),
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
  matmul: operator<Binary>("matmul"),
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
  norm: operator<(self: Tensor, order: number, dims: readonly number[] | null, keepDimension: boolean) => Tensor>(
    "linalg_vector_norm",
  ),
  amax: operator<Reduction>("amax"),
  argmax: operator<(self: Tensor, dim: number | null, keepDimension: boolean) => Tensor>("argmax"),
  all: operator<Unary>("all"),
  softmax: operator<(self: Tensor, dim: number, type?: number) => Tensor>("softmax", "int"),
  logSoftmax: operator<(self: Tensor, dim: number, type?: number) => Tensor>("log_softmax", "int"),
  logsumexp: operator<(self: Tensor, dims: readonly number[]) => Tensor>("logsumexp"),
  maskedFill: operator<(self: Tensor, mask: Tensor, value: number) => Tensor>("masked_fill", "Scalar"),
  toType: operator<(self: Tensor, type: number, nonBlocking: boolean, copy: boolean) => Tensor>("to", "dtype"),
  toDevice: operator<(self: Tensor, device: string, type: number, nonBlocking: boolean) => Tensor>("to", "device"),
  detach: operator<Unary>("detach"),
  clone: operator<Unary>("clone"),
  contiguous: operator<Unary>("contiguous"),
  requireGrad: operator<(self: Tensor, on: boolean) => void>("requires_grad_"),
  item: operator<(self: Tensor) => number>("item"),
};

/**
 * A handle on a libtorch tensor. It belongs to the `scope` that made it. Names follow PyTorch's; a trailing `_` writes in place
 * and returns the tensor itself.
 */
export class Tensor {
  /** 0 once freed. */
  handle: number;
  /** True where `keep` took it out of its scope. */
  kept = false;
  #facts: { shape: readonly number[]; dtype: DType; device: Device } | undefined;

  constructor(handle: number) {
    this.handle = handle;
    registerInScope(this);
  }

  #read(): { shape: readonly number[]; dtype: DType; device: Device } {
    if (!this.#facts) {
      const [type, , device, ...shape] = native().facts(this.handle) as [number, number, number, ...number[]];
      this.#facts = { shape, dtype: getDTypeName(type), device: device < 0 ? "cpu" : `cuda:${device}` };
    }
    return this.#facts;
  }
  get shape(): readonly number[] {
    return this.#read().shape;
  }
  get dtype(): DType {
    return this.#read().dtype;
  }
  get device(): Device {
    return this.#read().device;
  }
  /** Size of one dimension; negative ones count from the end. */
  size(dim: number): number {
    const size = this.shape.at(dim);
    if (size === undefined) throw new RangeError(`dimension ${dim} of a tensor of shape [${this.shape}]`);
    return size;
  }
  get numel(): number {
    return this.shape.reduce((product, size) => product * size, 1);
  }
  get requiresGrad(): boolean {
    return native().facts(this.handle)[1] === 1;
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
  /** True where neither infinite nor NaN. */
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

  /** The last two dimensions swapped. */
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

  /** Over the given dimensions, or over all. */
  sum(dims: readonly number[] | null = null, keepDimension = false): Tensor {
    return ops.sum(this, dims, keepDimension);
  }
  mean(dims: readonly number[] | null = null, keepDimension = false): Tensor {
    return ops.mean(this, dims, keepDimension);
  }
  /** L2 norm, or of another order (Infinity: the largest absolute value). */
  norm(dims: readonly number[] | null = null, keepDimension = false, order = 2): Tensor {
    return ops.norm(this, order, dims, keepDimension);
  }
  amax(dims: readonly number[], keepDimension = false): Tensor {
    return ops.amax(this, dims, keepDimension);
  }
  argmax(dim: number | null = null, keepDimension = false): Tensor {
    return ops.argmax(this, dim, keepDimension);
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
    ops.addInto(this, other);
    return this;
  }
  sub_(other: Tensor | number): this {
    ops.subInto(this, other);
    return this;
  }
  mul_(other: Tensor | number): this {
    ops.mulInto(this, other);
    return this;
  }
  div_(other: Tensor | number): this {
    ops.divInto(this, other);
    return this;
  }
  copy_(source: Tensor, nonBlocking = false): this {
    ops.copyInto(this, source, nonBlocking);
    return this;
  }
  fill_(value: number): this {
    ops.fillInto(this, value);
    return this;
  }
  lerp_(end: Tensor, weight: Tensor): this {
    ops.lerpInto(this, end, weight);
    return this;
  }

  /** Converted; itself where it is of that type already. */
  to(dtype: DType): Tensor {
    return dtype === this.dtype ? this : ops.toType(this, dtypeCodes[dtype], false, false);
  }
  toDevice(device: Device, nonBlocking = false): Tensor {
    return ops.toDevice(this, device, dtypeCodes[this.dtype], nonBlocking);
  }
  /** The same values without their history. */
  detach(): Tensor {
    return ops.detach(this);
  }
  clone(): Tensor {
    return ops.clone(this);
  }
  contiguous(): Tensor {
    return ops.contiguous(this);
  }
  /** Makes it a leaf whose gradient can be asked for. */
  requiresGrad_(on = true): this {
    ops.requireGrad(this, on);
    return this;
  }

  /** The one value of a one-element tensor; on a GPU this waits for it. */
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
  /** The values' bytes in the tensor's own type, row-major. */
  toBytes(): Uint8Array {
    return new Uint8Array(native().read(this.handle, dtypeCodes[this.dtype]));
  }
  /** Overwrites a contiguous CPU tensor's values. */
  write(values: ArrayBufferView): this {
    native().write(this.handle, values);
    return this;
  }
}
