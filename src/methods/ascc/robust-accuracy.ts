import { toPredictions } from "../../evaluation/metrics.js";
import { attackEncodings } from "../../hull/attack-encodings.js";
import type { HullOptions, ModifiableWords } from "../../hull/convex-hull.js";
import { predictProbabilities } from "../../models/index.js";
import { mapWeights } from "../../nn/index.js";
import { free, keep, noGrad, scope } from "../../tensor/index.js";
import type { TokenizedExample, TrainingContext } from "../../train/index.js";

/** Computes the fraction of texts that stay correct under the ASCC attack, and without it. */
export async function computeRobustAccuracy(
  { computeRows, ...training }: Pick<TrainingContext, "job" | "rng" | "computeRows" | "reportProgress">,
  items: readonly TokenizedExample[],
  getModifiableWords: (item: TokenizedExample) => ModifiableWords,
  options: HullOptions & { readonly robustAccuracy: "clean-and-attacked" | "attacked" },
): Promise<number> {
  const rows = await computeRows(items, async (own) => {
    const isRobust = await findRobust(training, own, getModifiableWords, options);
    return isRobust.map((each) => Float32Array.of(Number(each)));
  });
  return rows.filter(([isRobust]) => isRobust).length / items.length;
}

async function findRobust(
  { job, rng, reportProgress }: Pick<TrainingContext, "job" | "rng" | "reportProgress">,
  items: readonly TokenizedExample[],
  getModifiableWords: (item: TokenizedExample) => ModifiableWords,
  options: HullOptions & { readonly robustAccuracy: "clean-and-attacked" | "attacked" },
): Promise<boolean[]> {
  const { model, deviceConfig } = job;
  const { device, computeDtype } = deviceConfig;
  const texts = items.map((item) => ({
    encoding: item.encoding,
    modifiableWords: getModifiableWords(item),
    label: item.example.label,
    rng: rng.fork("ascc", "evaluate", item.example.id),
  }));
  const weights = noGrad(() =>
    scope(() => keep(mapWeights(model.weights, (tensor) => tensor.detach().to(computeDtype)))),
  );
  const reportBatch = (done: number): void => reportProgress("robust accuracy", done, items.length);
  const attacked = await attackEncodings({ model, weights, device }, texts, options, reportBatch).finally(() =>
    free(weights),
  );
  const predict = async (encodings: readonly TokenizedExample["encoding"][]): Promise<Int32Array> =>
    toPredictions(await predictProbabilities(model, model.weights, encodings, deviceConfig));
  const predictions = [await predict(attacked)];
  if (options.robustAccuracy === "clean-and-attacked")
    predictions.push(await predict(texts.map((text) => text.encoding)));
  return items.map(({ example }, i) => predictions.every((predicted) => predicted[i] === example.label));
}
