// Compares the kernels and the classifier in 8 bits (fp8) with float32 and with libtorch's rounding.

import { classify, createClassifier } from "../../dist/models/index.js";
import { canUseFp8, prepareFp8Weight } from "../../dist/nn/index.js";
import { free, gelu, linear, noGrad, operator, randn, scope, seedGenerator } from "../../dist/tensor/index.js";
import { measureDifference } from "./check-kernels.mjs";
import { createRandomDataset, createRandomModel, paddedLengths } from "./workload.mjs";

const quantizeRows = operator("temper::quantize_rows");
const biasGeluFp8 = operator("temper::bias_gelu_fp8");
const biasGelu = operator("temper::bias_gelu");
const residualNormFp8 = operator("temper::residual_norm_fp8");
const residualNorm = operator("temper::residual_norm");
const scaledMm = operator("_scaled_mm");
/** The largest distance of two numbers in e4m3 is 32, of at most 448: rounding changes a number by at most 16. */
const maxRounding = 16.01 / 448;
const bfloat16 = 15;

const restore = ([levels, scales]) => levels.to("float32").mul(scales);

/**
 * The fraction of elements that libtorch rounds to a nearer level. If a bf16 row has the largest value 3.5, then 6% of its
 * elements are exactly between two levels, and the last bit of the division decides. So both levels are right.
 */
function countFartherLevels([levels, scales], input) {
  const scaled = input.to("float32").div(scales);
  const measure = (level) => level.to("float32").sub(scaled).abs();
  const distance = measure(levels).sub(measure(scaled.clamp(-448, 448).to("float8_e4m3fn")));
  return distance.gt(scaled.abs().mul(1e-5)).to("float32").mean([0, 1]).item();
}

/** Returns one line per kernel: name, difference, tolerance. Empty on a GPU without fp8. */
export async function checkFp8(device) {
  if (!canUseFp8(device, 768, 3072, false)) return [];
  const lines = [];
  const add = (name, difference, tolerance) => lines.push({ name: `fp8 ${name}`, difference, tolerance });
  for (const [rows, hidden] of [
    [37, 384],
    [4096, 768],
  ])
    noGrad(() =>
      scope(() => {
        if (!canUseFp8(device, hidden, 4 * hidden, true)) throw new Error("the kernels do not load");
        seedGenerator(device, 1);
        const draw = (...shape) => randn(shape, { device });
        for (const dtype of ["float32", "bfloat16"])
          for (const width of [hidden, 4 * hidden]) {
            const x = draw(rows, width).to(dtype);
            const found = quantizeRows(x);
            add(`rows ${dtype} ${rows} x ${width}`, measureDifference(restore(found), x), maxRounding);
            add(`rows ${dtype} ${rows} x ${width}, farther levels`, countFartherLevels(found, x), 0);
          }
        const [x, r] = [draw(rows, hidden).to("bfloat16"), draw(rows, hidden).to("bfloat16")];
        const [b, w, o] = [0, 1, 2].map(() => draw(hidden).to("bfloat16"));
        const [output, ...normed] = residualNormFp8(x, b, r, w, o, 1e-12);
        const plain = residualNorm(x, b, r, w, o, null, 0, 1e-12);
        add(`norm ${rows} x ${hidden}, bf16 output`, measureDifference(output, plain), 0);
        add(`norm ${rows} x ${hidden}`, measureDifference(restore(normed), output), maxRounding);
        const [inner, bias] = [draw(rows, 4 * hidden).to("bfloat16"), draw(4 * hidden).to("bfloat16")];
        for (const tanh of [false, true]) {
          const active = biasGeluFp8(inner, bias, tanh);
          const name = `bias + gelu${tanh ? " (tanh)" : ""} ${rows} x ${4 * hidden}`;
          const exact = gelu(inner.to("float32").add(bias.to("float32")), tanh ? "tanh" : "none");
          add(name, measureDifference(restore(active), exact), maxRounding + 1e-3);
          add(`${name}, bf16`, measureDifference(restore(active), biasGelu(inner, bias, tanh)), maxRounding + 0.005);
        }
        const weight = draw(hidden, 4 * hidden);
        const prepared = prepareFp8Weight(weight);
        const [levels, scales] = quantizeRows(inner);
        const restoredWeight = restore(quantizeRows(weight));
        for (const [name, added] of [
          ["product", null],
          ["product with bias", b],
        ]) {
          const product = scaledMm(levels, prepared.fp8, scales, prepared.fp8Scales, added, null, bfloat16, true);
          const exact = linear(restore([levels, scales]), restoredWeight, added?.to("float32") ?? null);
          add(`${name} ${rows} x ${4 * hidden} x ${hidden}`, measureDifference(product, exact), 0.02);
        }
      }),
    );
  for (const size of ["minilm", "base"]) {
    const model = createRandomModel(size, device);
    const texts = createRandomDataset(300, paddedLengths(64)).items.map(({ encoding }) => encoding);
    const results = [];
    for (const config of [{ computeDtype: "float32" }, { computeDtype: "bfloat16", isQuantized: true }])
      for (let turn = 0; turn < 2; turn++) {
        const classifier = createClassifier(model, model.weights, { device, ...config });
        // Alone and among others, a text has the same logits, up to the kernels for other sizes.
        const rows = await classify(classifier, turn === 0 ? texts : texts.slice(0, 100));
        results.push(rows.flatMap((row) => [...row]));
        classifier.close();
      }
    const compare = (a, b) =>
      Math.max(...b.map((value, i) => Math.abs(value - a[i]))) / Math.max(...b.map((value) => Math.abs(value)));
    add(`classifier, ${size}`, compare(results[2], results[0]), 0.3);
    add(`classifier, ${size}, other batch`, compare(results[2], results[3]), 0.01);
    free(model.weights);
  }
  return lines;
}
