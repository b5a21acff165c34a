import { toPredictions } from "../../evaluation/metrics.js";
import { attackEncodings } from "../../hull/attack-encodings.js";
import type { HullOptions, ModifiableWords } from "../../hull/convex-hull.js";
import { predictProbabilities } from "../../models/index.js";
import { mapWeights } from "../../nn/index.js";
import { free, keep, noGrad, scope } from "../../tensor/index.js";
import type { TokenizedExample, TrainingContext } from "../../train/index.js";

export async function computeRobustAccuracy(
  { job, rng, computeRows, reportProgress }: Pick<TrainingContext, "job" | "rng" | "computeRows" | "reportProgress">,
  items: readonly TokenizedExample[],
  getModifiableWords: (item: TokenizedExample) => ModifiableWords,
  options: HullOptions & { readonly robustAccuracy: "clean-and-attacked" | "attacked" },
): Promise<number> {
  const { model, deviceConfig } = job;
  const { device, computeDtype } = deviceConfig;
  const predict = async (encodings: readonly TokenizedExample["encoding"][]): Promise<Int32Array> =>
    toPredictions(await predictProbabilities(model, model.weights, encodings, deviceConfig));
  const rows = await computeRows(items, async (own) => {
    const texts = own.map((item) => ({
      encoding: item.encoding,
      modifiableWords: getModifiableWords(item),
      label: item.example.label,
      rng: rng.fork("ascc", "evaluate", item.example.id),
    }));
    const weights = noGrad(() =>
      scope(() => keep(mapWeights(model.weights, (tensor) => tensor.detach().to(computeDtype)))),
    );
    const reportBatch = (done: number): void => reportProgress("robust accuracy", done, own.length);
    const attacked = await attackEncodings({ model, weights, device }, texts, options, reportBatch).finally(() =>
      free(weights),
    );
    const predictions = [await predict(attacked)];
    if (options.robustAccuracy === "clean-and-attacked")
      predictions.push(await predict(texts.map((text) => text.encoding)));
    return texts.map(({ label }, i) => Float32Array.of(Number(predictions.every((each) => each[i] === label))));
  });
  return rows.filter(([isRobust]) => isRobust).length / items.length;
}
