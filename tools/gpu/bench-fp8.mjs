#!/usr/bin/env node
// Microseconds of the products and kernels of one layer of BERT-base in bf16 and in fp8.
//   node tools/gpu/bench-fp8.mjs [--tokens 98304] [--hidden 768] [--device cuda:0]
import { parseArgs } from "node:util";
import { canUseFp8 } from "../../dist/nn/index.js";
import { linear, loadKernels, noGrad, operator, randn, scope, synchronize } from "../../dist/tensor/index.js";

const { values } = parseArgs({
  options: {
    tokens: { type: "string", default: "98304" },
    hidden: { type: "string", default: "768" },
    device: { type: "string", default: "cuda:0" },
  },
});
const { device } = values;
const [tokens, hidden] = [Number(values.tokens), Number(values.hidden)];
if (!canUseFp8(device, hidden, 4 * hidden, false)) throw new Error("this GPU has no fp8");
for (const width of [hidden, 4 * hidden]) loadKernels("column-sum", width, "bfloat16", device);
const op = (name) => operator(name);
const scaledMm = op("_scaled_mm");
const quantizeRows = op("temper::quantize_rows");
const bfloat16 = 15;

function measure(name, run, flops = 0) {
  let best = Number.POSITIVE_INFINITY;
  for (let turn = 0; turn < 5; turn++)
    scope(() => {
      run();
      synchronize();
      const start = performance.now();
      for (let i = 0; i < 20; i++) scope(run);
      synchronize();
      best = Math.min(best, (performance.now() - start) / 20);
    });
  const speed = flops > 0 ? `, ${Math.round(flops / best / 1e9)} TFLOPS` : "";
  console.log(`${name}: ${(1000 * best).toFixed(1)} us${speed}`);
}

noGrad(() =>
  scope(() => {
    const draw = (...shape) => randn(shape, { device }).to("bfloat16");
    for (const [name, width, outputs] of [
      ["query, key, value", hidden, 3 * hidden],
      ["attention output", hidden, hidden],
      ["inner", hidden, 4 * hidden],
      ["outer", 4 * hidden, hidden],
    ])
      scope(() => {
        const [x, weight, bias] = [draw(tokens, width), draw(outputs, width), draw(outputs)];
        const flops = 2 * tokens * width * outputs;
        const [levels, scales] = quantizeRows(x);
        const [weightLevels, weightScales] = quantizeRows(weight);
        const [columns, columnScales] = [weightLevels.t(), weightScales.reshape(1, -1)];
        const one = randn([1], { device }).mul(0).add(1);
        measure(`${name}, bf16`, () => linear(x, weight, null), flops);
        for (const fast of [true, false])
          measure(
            `${name}, fp8 by rows${fast ? "" : ", slow accumulation"}`,
            () => scaledMm(levels, columns, scales, columnScales, null, null, bfloat16, fast),
            flops,
          );
        measure(
          `${name}, fp8 by rows, bias`,
          () => scaledMm(levels, columns, scales, columnScales, bias, null, bfloat16, true),
          flops,
        );
        measure(`${name}, fp8 by tensor`, () => scaledMm(levels, columns, one, one, null, null, bfloat16, true), flops);
        measure(`${name}, rounding of the input`, () => quantizeRows(x));
      });
    const [inner, innerBias] = [draw(tokens, 4 * hidden), draw(4 * hidden)];
    measure("gelu, bf16", () => op("temper::bias_gelu")(inner, innerBias, false));
    measure("gelu, fp8", () => op("temper::bias_gelu_fp8")(inner, innerBias, false));
    const [x, r, b, w, o] = [draw(tokens, hidden), draw(tokens, hidden), draw(hidden), draw(hidden), draw(hidden)];
    measure("norm, bf16", () => op("temper::residual_norm")(x, b, r, w, o, null, 0, 1e-12));
    measure("norm, fp8", () => op("temper::residual_norm_fp8")(x, b, r, w, o, 1e-12));
  }),
);
