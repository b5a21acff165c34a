import { operator } from "./door.js";
import { native } from "./native.js";
import { own } from "./scope.js";
import { type DataType, type Device, typeCodes, typeName } from "./types.js";

type Unary = (self: Tensor) => Tensor;
type Binary = (self: Tensor, other: Tensor) => Tensor;
type WithNumber = (self: Tensor, other: number) => Tensor;
type Reduction = (self: Tensor, dims: readonly number[] | null, keepDimension: boolean) => Tensor;

/** An operator with a tensor and a number form. */
function either(name: string): (self: Tensor, other: Tensor | number) => Tensor {
  const withTensor = operator<Binary>(name, "Tensor");
  const withNumber = operator<WithNumber>(name, "Scalar");
  return (self, other) => (typeof other === "number" ? withNumber(self, other) : withTensor(self, other));
}

/** The same, writing into its first argument. */
function eitherInto(name: string): (self: Tensor, other: Tensor | number) => void {
  const withTensor = operator<(self: Tensor, other: Tensor) => void>(name, "Tensor");
  const withNumber = operator<(self: Tensor, other: number) => void>(name, "Scalar");
  return (self, other) => (typeof other === "number" ? withNumber(self, other) : withTensor(self, other));
}

const call = {
  add: either("add"),
  sub: either("sub"),
  mul: either("mul"),
  div: either("div"),
  eq: either("eq"),
  ne: either("ne"),
  lt: either("lt"),
  le: either("le"),
  gt: either("gt"),
  ge: either("ge"),
  addInto: eitherInto("add_"),
  subInto: eitherInto("sub_"),
  mulInto: eitherInto("mul_"),
  divInto: eitherInto("div_"),
  copyInto: operator<(self: Tensor, source: Tensor, nonBlocking: boolean) => void>("copy_"),
  fillInto: operator<(self: Tensor, value: number) => void>("fill_", "Scalar"),
  lerpInto: operator<(self: Tensor, end: Tensor, weight: Tensor) => void>("lerp_", "Tensor"),
  pow: operator<WithNumber>("pow", "Tensor_Scalar"),
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
  unsqueeze: operator<WithNumber>("unsqueeze"),
  squeeze: operator<WithNumber>("squeeze", "dim"),
  select: operator<(self: Tensor, dim: number, index: number) => Tensor>("select", "int"),
  narrow: operator<(self: Tensor, dim: number, start: number, length: number) => Tensor>("narrow"),
  indexSelect: operator<(self: Tensor, dim: number, index: Tensor) => Tensor>("index_select"),
  gather: operator<(self: Tensor, dim: number, index: Tensor) => Tensor>("gather"),
  sum: operator<Reduction>("sum", "dim_IntList"),
  mean: operator<Reduction>("mean", "dim"),
  norm: operator<(self: Tensor, order: number, dims: readonly number[] | null, keepDimension: boolean) => Tensor>("linalg_vector_norm"),
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
  #facts: { shape: readonly number[]; type: DataType; device: Device } | undefined;

  constructor(handle: number) {
    this.handle = handle;
    own(this);
  }

  #read(): { shape: readonly number[]; type: DataType; device: Device } {
    if (!this.#facts) {
      const [type, , device, ...shape] = native().facts(this.handle) as [number, number, number, ...number[]];
      this.#facts = { shape, type: typeName(type), device: device < 0 ? "cpu" : `cuda:${device}` };
    }
    return this.#facts;
  }
  get shape(): readonly number[] {
    return this.#read().shape;
  }
  get type(): DataType {
    return this.#read().type;
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
  get elements(): number {
    return this.shape.reduce((product, size) => product * size, 1);
  }
  get requiresGrad(): boolean {
    return native().facts(this.handle)[1] === 1;
  }

  add(other: Tensor | number): Tensor {
    return call.add(this, other);
  }
  sub(other: Tensor | number): Tensor {
    return call.sub(this, other);
  }
  mul(other: Tensor | number): Tensor {
    return call.mul(this, other);
  }
  div(other: Tensor | number): Tensor {
    return call.div(this, other);
  }
  pow(exponent: number): Tensor {
    return call.pow(this, exponent);
  }
  neg(): Tensor {
    return call.neg(this);
  }
  abs(): Tensor {
    return call.abs(this);
  }
  exp(): Tensor {
    return call.exp(this);
  }
  log(): Tensor {
    return call.log(this);
  }
  sqrt(): Tensor {
    return call.sqrt(this);
  }
  square(): Tensor {
    return call.square(this);
  }
  reciprocal(): Tensor {
    return call.reciprocal(this);
  }
  sign(): Tensor {
    return call.sign(this);
  }
  tanh(): Tensor {
    return call.tanh(this);
  }
  sigmoid(): Tensor {
    return call.sigmoid(this);
  }
  relu(): Tensor {
    return call.relu(this);
  }
  logicalNot(): Tensor {
    return call.logicalNot(this);
  }
  clamp(low: number | null, high: number | null = null): Tensor {
    return call.clamp(this, low, high);
  }
  /** True where neither infinite nor NaN. */
  isFinite(): Tensor {
    return call.isfinite(this);
  }
  matmul(other: Tensor): Tensor {
    return call.matmul(this, other);
  }

  eq(other: Tensor | number): Tensor {
    return call.eq(this, other);
  }
  ne(other: Tensor | number): Tensor {
    return call.ne(this, other);
  }
  lt(other: Tensor | number): Tensor {
    return call.lt(this, other);
  }
  le(other: Tensor | number): Tensor {
    return call.le(this, other);
  }
  gt(other: Tensor | number): Tensor {
    return call.gt(this, other);
  }
  ge(other: Tensor | number): Tensor {
    return call.ge(this, other);
  }

  /** The last two dimensions swapped. */
  t(): Tensor {
    return call.transpose(this, -2, -1);
  }
  transpose(a: number, b: number): Tensor {
    return call.transpose(this, a, b);
  }
  reshape(...shape: number[]): Tensor {
    return call.reshape(this, shape);
  }
  expand(...shape: number[]): Tensor {
    return call.expand(this, shape);
  }
  unsqueeze(dim: number): Tensor {
    return call.unsqueeze(this, dim);
  }
  squeeze(dim: number): Tensor {
    return call.squeeze(this, dim);
  }
  select(dim: number, index: number): Tensor {
    return call.select(this, dim, index);
  }
  narrow(dim: number, start: number, length: number): Tensor {
    return call.narrow(this, dim, start, length);
  }
  indexSelect(dim: number, index: Tensor): Tensor {
    return call.indexSelect(this, dim, index);
  }
  gather(dim: number, index: Tensor): Tensor {
    return call.gather(this, dim, index);
  }

  /** Over the given dimensions, or over all. */
  sum(dims: readonly number[] | null = null, keepDimension = false): Tensor {
    return call.sum(this, dims, keepDimension);
  }
  mean(dims: readonly number[] | null = null, keepDimension = false): Tensor {
    return call.mean(this, dims, keepDimension);
  }
  /** L2 norm, or of another order (Infinity: the largest absolute value). */
  norm(dims: readonly number[] | null = null, keepDimension = false, order = 2): Tensor {
    return call.norm(this, order, dims, keepDimension);
  }
  amax(dims: readonly number[], keepDimension = false): Tensor {
    return call.amax(this, dims, keepDimension);
  }
  argmax(dim: number | null = null, keepDimension = false): Tensor {
    return call.argmax(this, dim, keepDimension);
  }
  all(): Tensor {
    return call.all(this);
  }
  softmax(dim: number): Tensor {
    return call.softmax(this, dim);
  }
  logSoftmax(dim: number): Tensor {
    return call.logSoftmax(this, dim);
  }
  logsumexp(dims: readonly number[]): Tensor {
    return call.logsumexp(this, dims);
  }
  maskedFill(mask: Tensor, value: number): Tensor {
    return call.maskedFill(this, mask, value);
  }

  add_(other: Tensor | number): this {
    call.addInto(this, other);
    return this;
  }
  sub_(other: Tensor | number): this {
    call.subInto(this, other);
    return this;
  }
  mul_(other: Tensor | number): this {
    call.mulInto(this, other);
    return this;
  }
  div_(other: Tensor | number): this {
    call.divInto(this, other);
    return this;
  }
  copy_(source: Tensor, nonBlocking = false): this {
    call.copyInto(this, source, nonBlocking);
    return this;
  }
  fill_(value: number): this {
    call.fillInto(this, value);
    return this;
  }
  lerp_(end: Tensor, weight: Tensor): this {
    call.lerpInto(this, end, weight);
    return this;
  }

  /** Converted; itself where it is of that type already. */
  to(type: DataType): Tensor {
    return type === this.type ? this : call.toType(this, typeCodes[type], false, false);
  }
  toDevice(device: Device, nonBlocking = false): Tensor {
    return call.toDevice(this, device, typeCodes[this.type], nonBlocking);
  }
  /** The same values without their history. */
  detach(): Tensor {
    return call.detach(this);
  }
  clone(): Tensor {
    return call.clone(this);
  }
  contiguous(): Tensor {
    return call.contiguous(this);
  }
  /** Makes it a leaf whose gradient can be asked for. */
  requireGrad(on = true): this {
    call.requireGrad(this, on);
    return this;
  }

  /** The one value of a one-element tensor; on a GPU this waits for it. */
  item(): number {
    return call.item(this);
  }
  /** The values as 32-bit floats, row-major. */
  floats(): Float32Array {
    return new Float32Array(native().read(this.handle, typeCodes.float32));
  }
  /** The values as 32-bit integers, row-major. */
  integers(): Int32Array {
    return new Int32Array(native().read(this.handle, typeCodes.int32));
  }
  /** The values' bytes in the tensor's own type, row-major. */
  bytes(): Uint8Array {
    return new Uint8Array(native().read(this.handle, typeCodes[this.type]));
  }
  /** Overwrites a contiguous CPU tensor's values. */
  write(values: ArrayBufferView): this {
    native().write(this.handle, values);
    return this;
  }
}
