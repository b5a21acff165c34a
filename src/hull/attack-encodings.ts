import { batchByLength } from "../models/index.js";
import { crossEntropyLoss, scope, tensor } from "../tensor/index.js";
import type { Encoding } from "../text/encoding.js";
import type { HullOptions, ModifiableWords } from "./convex-hull.js";
import { createHullBatch, type HullText, type WeightedModel } from "./hull-model.js";

/** The candidate with the largest mixture weight for each modifiable word, and that weight. */
export interface HullSelection {
  readonly replacementIndices: Int32Array;
  readonly mixtureWeights: Float32Array;
}

/** `reduction` code of libtorch's cross-entropy. */
const sumReduction = 2;

/** Finds the mixtures with the largest cross-entropy, then picks single candidates. */
export function findWorstCaseSubstitutions(
  victim: WeightedModel,
  texts: readonly (HullText & { readonly label: number })[],
  options: HullOptions,
): HullSelection[] {
  return scope(() => {
    const batch = createHullBatch(victim, texts, options);
    const labels = tensor(
      Int32Array.from(texts, (text) => text.label),
      [texts.length],
      { device: victim.device },
    );
    const initialLogits = batch.sample(
      ({ rng }) => rng,
      (rng) => batch.initialStd * rng.normal(),
    );
    const mixtureWeights = batch.search(initialLogits, (logits) =>
      crossEntropyLoss(logits, labels, null, sumReduction, -100, 0),
    );
    const candidates = mixtureWeights.argmax(-1).toInt32Array();
    const largestWeights = mixtureWeights.amax([-1]).toFloat32Array();
    let end = 0;
    return texts.map(({ modifiableWords }) => {
      const start = end;
      end += modifiableWords.candidateIds.length;
      return {
        replacementIndices: candidates.slice(start, end),
        mixtureWeights: largestWeights.slice(start, end),
      };
    });
  });
}

/** Maximum number of tokens whose gradients are computed together. */
const tokensPerBatch = { cpu: 2048, gpu: 16384 };

/** Attacks any number of texts, in batches of similar length. Returns the attacked encodings. */
export async function attackEncodings(
  victim: WeightedModel,
  texts: readonly (HullText & { readonly label: number })[],
  options: HullOptions,
  onBatch?: (done: number) => void,
): Promise<Encoding[]> {
  const encodings = texts.map((text) => text.encoding);
  const attacked = [...encodings];
  let done = 0;
  for (const batch of batchByLength(encodings, tokensPerBatch[victim.device === "cpu" ? "cpu" : "gpu"])) {
    const batchTexts = batch.map((i) => texts[i]!);
    const selections = findWorstCaseSubstitutions(victim, batchTexts, options);
    for (const [row, i] of batch.entries()) {
      const { encoding, modifiableWords } = batchTexts[row]!;
      attacked[i] = replaceTokens(encoding, modifiableWords, selections[row]!.replacementIndices);
    }
    done += batch.length;
    await new Promise(setImmediate);
    onBatch?.(done);
  }
  return attacked;
}

export function replaceTokens(encoding: Encoding, words: ModifiableWords, replacementIndices: Int32Array): Encoding {
  const ids = encoding.ids.slice();
  for (const [i, position] of words.tokenPositions.entries())
    ids[position] = words.candidateIds[i]![replacementIndices[i]!]!;
  return { ...encoding, ids };
}
