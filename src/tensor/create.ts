import { native } from "./native.js";
import { operator } from "./operator.js";
import { Tensor } from "./tensor.js";
import { type Device, type DType, dtypeCodes, dtypeSizes, type TensorOptions } from "./types.js";

type Shape = readonly number[];

/**
 * Creates a tensor from a copy of an array. Without `dtype`, floats become float32, 32-bit integers
 * become int64 (the dtype of indices) and bytes become bool.
 *
 * @example
 * const x = tensor([1, 2, 3, 4], [2, 2]);
 * const ids = tensor(Int32Array.of(101, 102), [1, 2], { device: "cuda" });
 */
export function tensor(
  values: ArrayBufferView | readonly number[],
  shape?: Shape,
  options: TensorOptions = {},
): Tensor {
  const data = Array.isArray(values)
    ? Float32Array.from(values)
    : (values as Exclude<typeof values, readonly number[]>);
  const [stored, defaultDType] = inferDTypes(data, options.dtype);
  const created = fromBytes(
    data,
    shape ?? [data.byteLength / dtypeSizes[stored]],
    stored,
    options.dtype ?? defaultDType,
  );
  return options.device && options.device !== "cpu" ? created.toDevice(options.device) : created;
}

/** The dtype of a typed array, and the default dtype of a tensor created from it. */
function inferDTypes(data: ArrayBufferView, dtype: DType | undefined): [DType, DType] {
  if (data instanceof Float32Array) return ["float32", "float32"];
  if (data instanceof Float64Array) return ["float64", "float32"];
  if (data instanceof Int32Array) return ["int32", "int64"];
  if (data instanceof BigInt64Array) return ["int64", "int64"];
  if (data instanceof Uint16Array && (dtype === "float16" || dtype === "bfloat16")) return [dtype, dtype];
  if (data instanceof Uint8Array) return ["uint8", "bool"];
  throw new TypeError(
    "tensor() accepts Float32Array, Float64Array, Int32Array, BigInt64Array, Uint8Array, or Uint16Array with " +
      `dtype float16 or bfloat16; received ${data?.constructor?.name ?? typeof data}`,
  );
}

export function fromBytes(bytes: ArrayBufferView, shape: Shape, stored: DType, dtype: DType = stored): Tensor {
  return new Tensor(native().create(bytes, shape, dtypeCodes[stored], dtypeCodes[dtype]));
}

function factory(name: string, overload?: string): (shape: Shape, options?: TensorOptions) => Tensor {
  const create = operator<(shape: Shape, dtype: number, layout: undefined, device: Device) => Tensor>(name, overload);
  return (shape, options = {}) =>
    create(shape, dtypeCodes[options.dtype ?? "float32"], undefined, options.device ?? "cpu");
}

export const zeros = factory("zeros");
export const ones = factory("ones");
export const empty = factory("empty", "memory_format");
/** Samples from the standard normal distribution with the default generator of the device. */
export const randn = factory("randn");
/** Samples uniformly from [0, 1) with the default generator of the device. */
export const rand = factory("rand");

/** Samples 0 with probability p, otherwise 1 / (1 - p), whatever the number of CPU threads. */
export function dropoutMask(shape: Shape, p: number, dtype: "float32" | "float64" | "bfloat16"): Tensor {
  const mask = empty(shape, { dtype });
  native().fillDropoutMask(mask.handle, p);
  return mask;
}

const fullOp =
  operator<(shape: Shape, value: number, dtype: number, layout: undefined, device: Device) => Tensor>("full");
export function full(shape: Shape, value: number, options: TensorOptions = {}): Tensor {
  return fullOp(shape, value, dtypeCodes[options.dtype ?? "float32"], undefined, options.device ?? "cpu");
}

const arangeOp = operator<(end: number, dtype: number, layout: undefined, device: Device) => Tensor>("arange");
/** Creates the int64 tensor 0, 1, …, n - 1. */
export function arange(n: number, device: Device = "cpu"): Tensor {
  return arangeOp(n, dtypeCodes.int64, undefined, device);
}

export const zerosLike = operator<(self: Tensor) => Tensor>("zeros_like");
export const onesLike = operator<(self: Tensor) => Tensor>("ones_like");
export const emptyLike = operator<(self: Tensor) => Tensor>("empty_like");
