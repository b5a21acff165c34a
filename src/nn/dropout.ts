import {
  arange,
  type Device,
  dropoutMask,
  dropoutOp,
  empty,
  loadKernels,
  noGrad,
  operator,
  scope,
  stack,
  type Tensor,
} from "../tensor/index.js";
import { type ForwardMode, randomOp } from "./forward-mode.js";

const seededDropoutOp = operator<(input: Tensor, seed: Tensor, p: number) => Tensor>("temper::seeded_dropout");
const shiftOp = operator<(self: Tensor, bits: number) => Tensor>("bitwise_right_shift", "Tensor_Scalar");
const andOp = operator<(self: Tensor, bits: number) => Tensor>("bitwise_and", "Scalar");
const xorOp = operator<(self: Tensor, other: Tensor) => Tensor>("bitwise_xor", "Tensor");

/** Draws the seed of a dropout mask from the generator of the device. The host does not wait. */
export function drawDropoutSeed(device: Device): Tensor {
  const seed = empty([1], { dtype: "int64", device });
  randomOp(seed);
  return seed;
}

export function takeDropoutSeed(device: Device, mode: ForwardMode): Tensor {
  return mode.seeds?.take() ?? drawDropoutSeed(device);
}

/** Multiplies by a 64-bit constant, given as two halves because a double cannot hold it. */
const mulWide = (tensor: Tensor, high: number, low: number): Tensor =>
  tensor
    .mul(high)
    .mul(2 ** 32)
    .add(tensor.mul(low));

/** x ^ (x >> bits) with zeros shifted in. */
const xorShift = (tensor: Tensor, bits: number): Tensor =>
  xorOp(tensor, andOp(shiftOp(tensor, bits), 2 ** (64 - bits) - 1));

/** The mask of the kernels in native/gpu/kernels for a seed: splitmix64, 32 bits per element. */
export function computeDropoutMask(shape: readonly number[], seed: Tensor, p: number): Tensor {
  return noGrad(() =>
    scope(() => {
      const count = shape.reduce((product, size) => product * size, 1);
      const counter = arange(Math.ceil(count / 2), seed.device).add(1);
      let bits = mulWide(counter, 0x9e3779b9, 0x7f4a7c15).add(seed);
      bits = mulWide(xorShift(bits, 30), 0xbf58476d, 0x1ce4e5b9);
      bits = mulWide(xorShift(bits, 27), 0x94d049bb, 0x133111eb);
      bits = xorShift(bits, 31);
      const halves = [andOp(bits, 2 ** 32 - 1), andOp(shiftOp(bits, 32), 2 ** 32 - 1)];
      return stack(halves, 1)
        .reshape(-1)
        .narrow(0, 0, count)
        .ge(Math.floor(p * 2 ** 32))
        .to("float32")
        .mul(1 / (1 - p))
        .reshape(...shape);
    }),
  );
}

/** Zeroes elements with probability p and scales the rest by 1 / (1 - p). Identity in eval mode. */
export function dropout(input: Tensor, p: number, mode: ForwardMode): Tensor {
  if (!mode.training || p === 0) return input;
  const { device, dtype } = input;
  if (p >= 1 || (dtype !== "float32" && dtype !== "float64" && dtype !== "bfloat16")) return dropoutOp(input, p, true);
  // libtorch samples on one CPU thread; our mask uses all, whatever their number.
  if (device === "cpu") return input.mul(dropoutMask(input.shape, p, dtype));
  const seed = takeDropoutSeed(device, mode);
  if (loadKernels("dropout", 0, dtype, device)) return seededDropoutOp(input, seed, p);
  return input.mul(computeDropoutMask(input.shape, seed, p).to(dtype));
}
