#!/usr/bin/env node
// The error of logit margins in low precision: texts of SST-2 and all texts with one word less, against float32.
//   node tools/gpu/margins.mjs RUN dev.tsv [--precisions bf16,fp8] [--device cuda:0] [--texts 872]
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { loadVictim } from "../../dist/actions/load/load-victim.js";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    precisions: { type: "string", default: "bf16,fp8" },
    device: { type: "string", default: "cuda:0" },
    texts: { type: "string", default: "872" },
  },
});
const [reference, data] = positionals;
const texts = readFileSync(data, "utf8")
  .trim()
  .split("\n")
  .slice(1, 1 + Number(values.texts))
  .flatMap((line) => {
    const words = line.split("\t")[0].trim().split(" ");
    return [words, ...words.map((_, i) => words.toSpliced(i, 1))].map((each) => each.join(" "));
  });

async function computeMargins(victim) {
  const inputs = victim.prepareAll(texts.map((text) => () => [text]));
  const margins = [];
  for (let start = 0; start < inputs.length; start += victim.maxBatchSize)
    for (const row of await victim.logits(inputs.slice(start, start + victim.maxBatchSize)))
      margins.push(row[1] - row[0]);
  return margins;
}

for (const precision of values.precisions.split(",")) {
  const loaded = await loadVictim(reference, { device: values.device, precision, isConfirmed: true });
  const [low, exact] = [await computeMargins(loaded.victim), await computeMargins(loaded.victim.exact)];
  const errors = low.map((margin, i) => Math.abs(margin - exact[i])).sort((a, b) => a - b);
  const at = (fraction) => errors[Math.min(errors.length - 1, Math.floor(fraction * errors.length))].toPrecision(3);
  const flipped = low.filter((margin, i) => margin > 0 !== exact[i] > 0).length;
  const sizes = exact.map(Math.abs).sort((a, b) => a - b);
  console.log(
    JSON.stringify({
      ...{ precision, texts: errors.length, median: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1), flipped },
      medianMargin: sizes[sizes.length >> 1].toPrecision(3),
    }),
  );
  loaded.close();
}
process.exit(0);
