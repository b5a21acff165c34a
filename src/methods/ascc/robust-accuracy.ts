import { findWorstCaseSubstitutions, type HullOptions, withReplacements } from "../../attacks/ascc-search.js";
import type { ModifiableWords } from "../../attacks/open-words.js";
import { toPredictions } from "../../evaluation/metrics.js";
import { mapWeights } from "../../nn/index.js";
import { free, keep, noGrad, scope } from "../../tensor/index.js";
import { lengthBatches, predictProbabilities, type TokenizedExample, type TrainingContext } from "../../train/index.js";

/** Tokens whose gradients are taken together. */
const tokensPerBatch = { cpu: 2048, gpu: 16384 };

/** The share of texts that are classified right as they are and with the words that the ASCC attack puts in. */
export async function computeRobustAccuracy(
  run: Pick<TrainingContext, "model" | "device" | "computeDtype" | "rng" | "reportProgress">,
  items: readonly TokenizedExample[],
  getModifiableWords: (item: TokenizedExample) => ModifiableWords,
  options: HullOptions,
): Promise<number> {
  const { model, device, computeDtype: compute } = run;
  const encoded = items.map((item) => item.encoding);
  const attacked = [...encoded];
  const weights = noGrad(() => scope(() => keep(mapWeights(model.weights, (tensor) => tensor.detach().to(compute)))));
  let done = 0;
  try {
    for (const batch of lengthBatches(encoded, device === "cpu" ? tokensPerBatch.cpu : tokensPerBatch.gpu)) {
      const texts = batch.map((i) => {
        const item = items[i] as TokenizedExample;
        const { id, label } = item.example;
        return {
          encoding: item.encoding,
          modifiableWords: getModifiableWords(item),
          label,
          rng: run.rng.fork("ascc", "evaluate", id),
        };
      });
      const picks = findWorstCaseSubstitutions({ model, weights, device }, texts, options);
      for (const [row, i] of batch.entries())
        attacked[i] = withReplacements(
          texts[row]!.encoding,
          texts[row]!.modifiableWords,
          picks[row]!.replacementIndices,
        );
      done += batch.length;
      await new Promise(setImmediate);
      run.reportProgress("robust accuracy", done, items.length);
    }
  } finally {
    free(weights);
  }
  const before = toPredictions(
    await predictProbabilities(model, model.weights, encoded, { device, computeDtype: compute }),
  );
  const after = toPredictions(
    await predictProbabilities(model, model.weights, attacked, { device, computeDtype: compute }),
  );
  const held = items.filter(({ example }, i) => before[i] === example.label && after[i] === example.label);
  return held.length / items.length;
}
