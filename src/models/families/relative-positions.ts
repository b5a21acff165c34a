import { arange, type Device, operator, type Tensor, where } from "../../tensor/index.js";

const ceil = operator<(self: Tensor) => Tensor>("ceil");
const fullLike = operator<(self: Tensor, value: number) => Tensor>("full_like");

// Everything is computed on the device, so that it can be captured in a CUDA graph.

/** The distance i - j from key j to query i: [length, length]. */
export function computeDistances(length: number, device: Device): Tensor {
  const positions = arange(length, device);
  return positions.unsqueeze(1).sub(positions);
}

/** The largest distance of MPNet that has a bucket of its own. */
const mpnetMaxDistance = 128;

/**
 * MPNet's buckets (those of T5): half of the buckets for keys after the query, and in each half one
 * bucket per small distance and logarithmic ones for the rest.
 */
export function bucketLikeMpnet(distances: Tensor): Tensor {
  const [half, exact] = [16, 8];
  const size = distances.abs();
  const logarithm = size
    .to("float32")
    .div(exact)
    .log()
    .div(Math.log(mpnetMaxDistance / exact))
    .mul(half - exact)
    .to("int64")
    .add(exact)
    .clamp(null, half - 1);
  const isAfter = distances.lt(0).to("int64").mul(half);
  return isAfter.add(where(size.lt(exact), size, logarithm));
}

/** DeBERTa's buckets: one per distance below half of them, logarithmic ones beyond. */
export function bucketLikeDeberta(distances: Tensor, buckets: number, maxPosition: number): Tensor {
  const middle = Math.floor(buckets / 2);
  const size = distances.abs();
  const far = where(size.lt(middle), fullLike(size, middle - 1), size);
  const base = Math.fround(Math.log(Math.fround((maxPosition - 1) / middle)));
  const logarithm = ceil(
    far
      .div(middle)
      .log()
      .div(base)
      .mul(middle - 1),
  ).add(middle);
  return where(far.le(middle), distances.to("float32"), logarithm.mul(distances.sign())).to("int64");
}
