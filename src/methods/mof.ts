import { z } from "zod";
import { benignLabelSchema, findLabel } from "../attacks/goals.js";
import { countSchema } from "../base/validate.js";
import { predictProbabilities, tokenizeAll } from "../models/index.js";
import { getWords } from "../proofs/certificates/index.js";
import type { Rng } from "../tensor/index.js";
import type { TrainingContext } from "../train/index.js";
import { defineMethod } from "./define-method.js";
import { createTextRounds, roundOptions } from "./text-rounds.js";

const name = "mof";

/** The most frequent words of the training texts, in the order of their first use if equally frequent. */
function listFrequentWords({ job }: Pick<TrainingContext, "job">, count: number): string[] {
  const counts = new Map<string, number>();
  for (const { example } of job.train.items)
    for (const word of getWords(example.texts[0]!)) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts]
    .sort(([, a], [, b]) => b - a)
    .slice(0, count)
    .map(([word]) => word);
}

/** Finds the words that the current model does not classify as benign if they are the complete text. */
async function findTriggerWords(
  { job, computeRows }: Pick<TrainingContext, "job" | "computeRows">,
  words: readonly string[],
  benign: number,
): Promise<string[]> {
  const { model, deviceConfig } = job;
  const encodings = tokenizeAll(
    model,
    words.map((word) => [word]),
  );
  const rows = await computeRows(encodings, (own) => predictProbabilities(model, model.weights, own, deviceConfig));
  return words.filter((_, i) => rows[i]!.some((probability) => probability > rows[i]![benign]!));
}

/** Inserts so many words at random places of a text. */
function insertWords(text: string, words: readonly string[], count: number, rng: Rng): string {
  const parts = text.split(" ");
  for (let i = 0; i < count; i++) parts.splice(rng.integer(parts.length + 1), 0, words[rng.integer(words.length)]!);
  return parts.join(" ");
}

/** CE(x) + alpha CE(x'), where x' is a benign text with words that alone look like attacks. */
export const mof = defineMethod({
  name,
  summary: "finds words that alone look like attacks, and also trains on benign texts that contain them",
  paper: "Li et al. 2024, InjecGuard: Mitigating Over-defense for Free (arXiv:2410.22770)",
  cost: { gpu: "about 2.1", cpu: "about 1.9", extra: "passes over single words" },
  options: z.strictObject({
    benignLabel: benignLabelSchema,
    ...roundOptions,
    maxWords: countSchema.default(10_000).describe("most frequent words of the training texts to try"),
    insertedWords: countSchema.default(3).describe("such words per changed text"),
  }),
  create: (options) => {
    let benign = 0;
    let words: readonly string[] = [];
    return createTextRounds({
      name,
      options,
      loss: "triggers",
      checkCompatibility: (_innerMethods, { task }) =>
        task.fields.length > 1 ? `it changes single texts, but task ${task.name} has pairs.` : null,
      async prepare(training) {
        benign = findLabel(options.benignLabel, training.job.model.labels, `method ${name}: benignLabel`);
        words = listFrequentWords(training, options.maxWords);
      },
      canChange: ({ example }) => example.label === benign,
      async createTexts(training, examples, rng) {
        const found = await findTriggerWords(training, words, benign);
        if (found.length === 0) return examples.map(() => null);
        return examples.map(({ texts: [text] }) => [insertWords(text!, found, options.insertedWords, rng)]);
      },
    });
  },
});
