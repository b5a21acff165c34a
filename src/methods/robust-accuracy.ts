import { type HullOptions, hardestSlots, withSlots } from "../attacks/hardest-slots.js";
import type { OpenWords } from "../attacks/open-words.js";
import { predictions } from "../evaluation/metrics.js";
import { mapWeights } from "../nn/index.js";
import { free, keep, noGrad, scope } from "../tensor/index.js";
import { type Item, lengthBatches, probabilitiesOf, type Run } from "../train/index.js";

/** Tokens whose gradients are taken together. */
const tokensPerBatch = { cpu: 2048, gpu: 16384 };

/** The share of texts that are classified right as they are and with the words that the ASCC attack puts in. */
export async function robustAccuracy(
  run: Pick<Run, "model" | "device" | "compute" | "rng" | "working">,
  items: readonly Item[],
  openOf: (item: Item) => OpenWords,
  options: HullOptions,
): Promise<number> {
  const { model, device, compute } = run;
  const encoded = items.map((item) => item.encoded);
  const attacked = [...encoded];
  const weights = noGrad(() => scope(() => keep(mapWeights(model.weights, (tensor) => tensor.detach().to(compute)))));
  let done = 0;
  try {
    for (const batch of lengthBatches(encoded, device === "cpu" ? tokensPerBatch.cpu : tokensPerBatch.gpu)) {
      const texts = batch.map((i) => {
        const item = items[i] as Item;
        const { id, label } = item.example;
        return { encoded: item.encoded, open: openOf(item), label, rng: run.rng.fork("ascc", "evaluate", id) };
      });
      const picks = hardestSlots({ model, weights, device }, texts, options);
      for (const [row, i] of batch.entries()) attacked[i] = withSlots(texts[row]!.encoded, texts[row]!.open, picks[row]!.slots);
      done += batch.length;
      await new Promise(setImmediate);
      run.working("robust accuracy", done, items.length);
    }
  } finally {
    free(weights);
  }
  const before = predictions(await probabilitiesOf(model, model.weights, encoded, { device, compute }));
  const after = predictions(await probabilitiesOf(model, model.weights, attacked, { device, compute }));
  const held = items.filter(({ example }, i) => before[i] === example.label && after[i] === example.label);
  return held.length / items.length;
}
