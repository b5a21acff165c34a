// Compares the attention of short texts (native/gpu/kernels/attention.cu) with libtorch's operators in float32.
import { computeDropoutMask, drawDropoutSeed } from "../../dist/nn/dropout.js";
import {
  cat,
  grad,
  loadKernels,
  noGrad,
  operator,
  randn,
  scope,
  seedGenerator,
  tensor,
} from "../../dist/tensor/index.js";

const shortAttention = operator("temper::short_attention");
const heads = 3;
const p = 0.2;

/** With outputs for first tokens only, these texts have none, like the padding of a packed batch. */
const isSkipped = (text) => text === 2 || text === 6;

/** The same attention, text by text. `mask` is [text, head, 128, 128] or null. */
function attendByOperators(projections, lengths, outputs, width, mask) {
  const hidden = heads * width;
  let start = 0;
  const rows = lengths.flatMap((length, text) => {
    const own = projections.to("float32").narrow(0, start, length).reshape(length, 3, heads, width);
    start += length;
    const [query, key, value] = [0, 1, 2].map((part) => own.select(1, part).transpose(0, 1)); // [head, token, width]
    if (outputs > 0 && isSkipped(text)) return [];
    const queries = outputs > 0 ? query.narrow(1, 0, 1) : query;
    const weights = queries.matmul(key.transpose(1, 2)).div(Math.sqrt(width)).softmax(-1);
    const dropped = mask
      ? weights.mul(mask.select(0, text).narrow(1, 0, queries.size(1)).narrow(2, 0, length))
      : weights;
    return [dropped.matmul(value).transpose(0, 1).reshape(-1, hidden)];
  });
  return cat(rows, 0);
}

/** Returns one line per width and length: name, difference, tolerance. */
export function checkAttention(device, measureDifference) {
  const cases = [32, 64].flatMap((width) =>
    [16, 37, 64, 65, 100, 128].flatMap((longest) =>
      ["packed", "equal"].flatMap((layout) =>
        [0, 5].flatMap((outputs) => [0, p].map((rate) => ({ width, longest, layout, outputs, rate }))),
      ),
    ),
  );
  return cases.map(({ width, longest, layout, outputs, rate }) =>
    scope(() => {
      if (!loadKernels(longest <= 64 ? "attention-64" : "attention-128", width, "bfloat16", device))
        throw new Error("the kernels of attention do not load");
      const lengths = Array.from(
        { length: 7 },
        (_, i) => (layout === "equal" ? longest : 1 + ((longest - 1) * (7 - i)) / 7) | 0,
      );
      const starts = [0];
      for (const length of lengths) starts.push(starts.at(-1) + length);
      const packed =
        layout === "packed" ? tensor(Int32Array.from(starts), [starts.length], { device }).to("int32") : null;
      const outputStarts = [0];
      for (const text of lengths.keys()) outputStarts.push(outputStarts.at(-1) + (isSkipped(text) ? 0 : 1));
      const packedOutputs =
        outputs > 0 ? tensor(Int32Array.from(outputStarts), [starts.length], { device }).to("int32") : null;
      seedGenerator(device, 1);
      const seed = rate > 0 ? drawDropoutSeed(device) : null;
      const mask = seed && computeDropoutMask([lengths.length, heads, 128, 128], seed, rate);
      const projections = noGrad(() =>
        randn([starts.at(-1), 3 * heads * width], { device }).to("bfloat16"),
      ).requiresGrad_();
      const results = [
        () => shortAttention(projections, packed, packedOutputs, heads, longest, outputs, seed, rate),
        () => attendByOperators(projections, lengths, outputs, width, mask),
      ].map((compute) => {
        const output = compute();
        seedGenerator(device, 3);
        const direction = noGrad(() => randn(output.shape, { device }).to("bfloat16").to(output.dtype));
        return [output, ...grad(output.mul(direction).sum(), [projections])];
      });
      const withoutGradient = noGrad(() =>
        shortAttention(projections, packed, packedOutputs, heads, longest, outputs, seed, rate),
      );
      const difference = Math.max(
        ...results[0].map((found, i) => measureDifference(found, results[1][i])),
        measureDifference(withoutGradient, results[0][0]),
      );
      const name = `attention ${width} x ${longest} ${layout}${outputs ? ", first tokens" : ""}${rate ? ", dropout" : ""}`;
      return { name, difference, tolerance: 3e-2 };
    }),
  );
}
