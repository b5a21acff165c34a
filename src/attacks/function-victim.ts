import { createHash } from "node:crypto";
import { UserError } from "../base/errors.js";
import { splitCalls } from "../models/inference/predict-in-calls.js";
import type { Identified } from "../models/inference/predictor.js";
import { type PlainInput, type PlainText, preparePlainTexts, type Victim } from "./victim.js";

/**
 * Classifies texts: one row of probabilities per text. A pair of texts is an array of two strings.
 */
export type PredictProbabilities = (
  texts: readonly PlainText[],
) => readonly ArrayLike<number>[] | Promise<readonly ArrayLike<number>[]>;

/** Texts per call of a function. */
const maxTexts = 256;

/**
 * Creates a victim from a function. Its classes are counted by classifying a text.
 *
 * @example
 * const victim = await createFunctionVictim((texts) => texts.map(() => [0.5, 0.5]));
 */
export async function createFunctionVictim(predict: PredictProbabilities): Promise<Victim<PlainInput> & Identified> {
  const [row] = await predict([""]);
  if (row === undefined || row.length < 2)
    throw new UserError(
      "model: expected a function that returns two or more probabilities per text, received " +
        `${row === undefined ? "no row" : `a row of ${row.length}`} for one text`,
    );
  const hash = createHash("sha256").update(predict.toString()).digest("hex");
  return splitCalls({
    name: predict.name || "a function",
    numLabels: row.length,
    hash,
    hashes: { model: hash },
    // The text of a function does not say everything that decides its answers.
    isDeterministic: false,
    unkToken: "[UNK]",
    callLimits: { maxTexts },
    prepare: preparePlainTexts,
    async predict(items: readonly PlainInput[]) {
      const rows = await predict(items.map(({ text }) => text));
      return rows.map((each) => ({ probabilities: Float32Array.from(each) }));
    },
  });
}
