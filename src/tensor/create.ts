import { native } from "./native.js";
import { operator } from "./operator.js";
import { Tensor } from "./tensor.js";
import { type Device, type DType, dtypeCodes, type TensorOptions } from "./types.js";

type Shape = readonly number[];
type Factory = (shape: Shape, type: number, layout: undefined, device: Device) => Tensor;

/** Copies a typed array: floats to float32, 32-bit integers to int64 (what indices are), bytes to bool, unless another type is named. */
export function tensor(
  values: ArrayBufferView | readonly number[],
  shape?: Shape,
  options: TensorOptions = {},
): Tensor {
  const data = Array.isArray(values)
    ? Float32Array.from(values)
    : (values as Exclude<typeof values, readonly number[]>);
  const [given, defaultDType] = inferDTypes(data, options.dtype);
  const dimensions = shape ?? [data.byteLength / getElementSize(given)];
  const created = new Tensor(
    native().create(data, dimensions, dtypeCodes[given], dtypeCodes[options.dtype ?? defaultDType]),
  );
  return options.device && options.device !== "cpu" ? created.toDevice(options.device) : created;
}

/** The type of a typed array's elements, and the tensor type it becomes where none is named. */
function inferDTypes(data: ArrayBufferView, wanted: DType | undefined): [DType, DType] {
  if (data instanceof Float32Array) return ["float32", "float32"];
  if (data instanceof Float64Array) return ["float64", "float32"];
  if (data instanceof Int32Array) return ["int32", "int64"];
  if (data instanceof BigInt64Array) return ["int64", "int64"];
  if (data instanceof Uint16Array && (wanted === "float16" || wanted === "bfloat16")) return [wanted, wanted];
  if (data instanceof Uint8Array) return ["uint8", "bool"];
  throw new TypeError(
    `tensor() takes Float32Array, Float64Array, Int32Array, BigInt64Array, Uint8Array, or Uint16Array with type float16 or bfloat16; received ${data?.constructor?.name ?? typeof data}`,
  );
}

function getElementSize(type: DType): number {
  return type === "float64" || type === "int64"
    ? 8
    : type === "uint8"
      ? 1
      : type === "float32" || type === "int32"
        ? 4
        : 2;
}

/** Raw bytes of a checkpoint, in the type they are stored in. */
export function fromBytes(bytes: Uint8Array, shape: Shape, stored: DType, wanted: DType = stored): Tensor {
  return new Tensor(native().create(bytes, shape, dtypeCodes[stored], dtypeCodes[wanted]));
}

function factory(name: string, overload?: string): (shape: Shape, options?: TensorOptions) => Tensor {
  const make = operator<Factory>(name, overload);
  return (shape, options = {}) =>
    make(shape, dtypeCodes[options.dtype ?? "float32"], undefined, options.device ?? "cpu");
}

export const zeros = factory("zeros");
export const ones = factory("ones");
export const empty = factory("empty", "memory_format");
/** Standard normal, from the device's default generator. */
export const randn = factory("randn");
/** Uniform in [0, 1), from the device's default generator. */
export const rand = factory("rand");

/** For dropout on the CPU: 0 at about `share` of the entries, 1 / (1 - share) at the others; from the default generator. */
export function dropoutMask(shape: Shape, p: number, type: "float32" | "float64"): Tensor {
  const mask = empty(shape, { dtype: type });
  native().fillDropoutMask(mask.handle, p);
  return mask;
}

const fullOp =
  operator<(shape: Shape, value: number, type: number, layout: undefined, device: Device) => Tensor>("full");
export function full(shape: Shape, value: number, options: TensorOptions = {}): Tensor {
  return fullOp(shape, value, dtypeCodes[options.dtype ?? "float32"], undefined, options.device ?? "cpu");
}

const arangeOp = operator<(end: number, type: number, layout: undefined, device: Device) => Tensor>("arange");
/** 0, 1, … n - 1 as int64. */
export function arange(n: number, device: Device = "cpu"): Tensor {
  return arangeOp(n, dtypeCodes.int64, undefined, device);
}

export const zerosLike = operator<(self: Tensor) => Tensor>("zeros_like");
export const onesLike = operator<(self: Tensor) => Tensor>("ones_like");
export const randnLike = operator<(self: Tensor) => Tensor>("randn_like");
export const randLike = operator<(self: Tensor) => Tensor>("rand_like");
export const emptyLike = operator<(self: Tensor) => Tensor>("empty_like");
