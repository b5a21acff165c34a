import { extname } from "node:path";
import { z } from "zod";
import { keepStopWords, noRepeat, onlyFields } from "../attacks/constraints/words.js";
import { EditedText } from "../attacks/edited-text.js";
import type { Constraint, Transformation } from "../attacks/protocol.js";
import { computeTogether, type ResourceGenerator } from "../attacks/requests.js";
import type { AttackResources, ResourceName } from "../attacks/resources.js";
import { expandText } from "../attacks/run-recipe.js";
import { type CharacterOperator, changeCharacters } from "../attacks/transformations/change-characters.js";
import { changeNames } from "../attacks/transformations/change-names.js";
import { changeNumbers } from "../attacks/transformations/change-numbers.js";
import { contractWords, expandContractions } from "../attacks/transformations/contractions.js";
import { deleteWord } from "../attacks/transformations/delete-word.js";
import { exchangeWords, insertSynonyms } from "../attacks/transformations/eda.js";
import { insertMaskedWords, replaceMaskedWords } from "../attacks/transformations/masked-words.js";
import { swapNeighbors } from "../attacks/transformations/swap-neighbors.js";
import { UserError } from "../base/errors.js";
import { type Callbacks, reportProgress } from "../base/events.js";
import { replaceFile } from "../base/files.js";
import { Rng } from "../base/rng.js";
import { countSchema, orNull, seedSchema, validate } from "../base/validate.js";
import { dataOptions } from "../settings/config.js";
import type { Example, Task } from "../tasks/index.js";
import { loadAttackResources, recipeResourceOptions } from "./load/load-resources.js";
import { loadConfiguredTask } from "./load/load-task.js";

const characterOperators: readonly CharacterOperator[] = ["swap", "delete", "insert", "keyboard"];

/** The transformations of each kind of augmentation, and what they need. */
const augmentations: Readonly<
  Record<string, { needs: readonly ResourceName[]; build(resources: Partial<AttackResources>): Transformation[] }>
> = {
  wordnet: { needs: ["neighbors"], build: ({ neighbors }) => [swapNeighbors(neighbors!, 8)] },
  embedding: { needs: ["neighbors"], build: ({ neighbors }) => [swapNeighbors(neighbors!, 15)] },
  mlm: {
    needs: ["mlm"],
    build: ({ mlm }) => [replaceMaskedWords(mlm!, { maxCandidates: 5 }), insertMaskedWords(mlm!, { maxCandidates: 5 })],
  },
  characters: {
    needs: [],
    build: () => characterOperators.map((each) => changeCharacters(each, { candidates: "one", innerOnly: true })),
  },
  eda: {
    needs: ["neighbors"],
    build: ({ neighbors }) => [swapNeighbors(neighbors!, 8), insertSynonyms(neighbors!), exchangeWords, deleteWord],
  },
  checklist: { needs: [], build: () => [contractWords, expandContractions, changeNumbers, changeNames] },
};

export const augmentRequestSchema = z.strictObject({
  ...dataOptions,
  split: z.enum(["train", "validation", "test"]).default("train").describe("dataset split to use"),
  recipe: z
    .enum(["wordnet", "embedding", "mlm", "characters", "eda", "checklist"])
    .default("eda")
    .describe("what changes: wordnet, embedding, mlm, characters, eda or checklist"),
  perText: countSchema.default(1).describe("changed texts per text"),
  rate: z.number().gt(0).max(1).default(0.1).describe("fraction of words to change, at least one word"),
  excludeOriginal: z.boolean().default(false).describe("write only the changed texts"),
  seed: seedSchema.default(0).describe("random seed"),
  substitutions: orNull(z.string(), "wordnet").describe('neighbors of words: "wordnet" or a JSON file'),
  vectors: recipeResourceOptions.vectors,
  maskedLm: recipeResourceOptions.maskedLm,
  out: z.string().describe("file of the new dataset (.jsonl)"),
});
/** Texts whose requests to a model are answered together. */
const windowSize = 64;

/**
 * Writes a dataset with changed copies of its texts, for training.
 *
 *     await augment({ data: "reviews.csv", recipe: "eda", perText: 4, out: "augmented.jsonl" });
 */
export async function augment(
  request: z.input<typeof augmentRequestSchema>,
  callbacks: Callbacks = {},
): Promise<{
  readonly out: string;
  readonly originals: number;
  readonly changed: number;
  /** Texts that no transformation could change. */
  readonly unchanged: number;
}> {
  const parsed = validate(augmentRequestSchema, request, "augment");
  const { recipe, out, substitutions, vectors, maskedLm } = parsed;
  if (extname(out) !== ".jsonl")
    throw new UserError(`--out: expected a path that ends with .jsonl, received "${out}".`);
  if (recipe === "embedding" && vectors === null && substitutions === null)
    throw new UserError("augment embedding needs the neighbors of words. Pass --vectors FILE or --substitutions FILE.");
  if (recipe === "mlm" && maskedLm === null)
    throw new UserError("augment mlm needs a masked language model. Pass --masked-lm MODEL.");
  const task = await loadConfiguredTask(parsed, callbacks);
  const examples = await task.load(parsed.split);
  const { needs, build } = augmentations[recipe]!;
  const source = recipe === "wordnet" ? { substitutions: "wordnet", vectors: null } : { substitutions, vectors };
  const loaded = await loadAttackResources(needs, { ...source, maskedLm, sentenceEncoder: "" }, null, [], callbacks);
  try {
    return await writeAugmented(parsed, task, examples, build(loaded.resources), callbacks);
  } finally {
    loaded.close();
  }
}

async function writeAugmented(
  { perText, rate, seed, recipe, excludeOriginal, out }: z.output<typeof augmentRequestSchema>,
  task: Task,
  examples: readonly Example[],
  transformations: readonly Transformation[],
  callbacks: Callbacks,
): ReturnType<typeof augment> {
  // Contractions are stop words, too.
  const keepsStopWords = recipe !== "checklist";
  const constraints = [onlyFields(task.modifiableFields), noRepeat, ...(keepsStopWords ? [keepStopWords()] : [])];
  const rng = new Rng(seed).fork("augment", recipe);
  const counts = { originals: 0, changed: 0, unchanged: 0 };
  await replaceFile(out, async (file) => {
    for (let start = 0; start < examples.length; start += windowSize) {
      const window = examples.slice(start, start + windowSize);
      const copies = window.flatMap((example) =>
        Array.from({ length: perText }, (_, copy) =>
          changeText(
            EditedText.create(example.texts),
            { transformations, constraints },
            rate,
            rng.fork(example.id, copy),
          ),
        ),
      );
      const texts = await computeTogether(copies);
      const lines = window.flatMap((example, i) => {
        const changed = texts.slice(i * perText, (i + 1) * perText).filter(({ edit }) => edit !== null);
        const distinct = new Map(changed.map((text) => [text.texts.join("\n"), text.texts]));
        if (distinct.size === 0) counts.unchanged++;
        counts.changed += distinct.size;
        counts.originals += Number(!excludeOriginal);
        return [...(excludeOriginal ? [] : [example.texts]), ...distinct.values()].map((each) =>
          formatRow(task, example, each),
        );
      });
      await file.appendFile(lines.join(""));
      reportProgress(callbacks, "augment", start + window.length, examples.length);
    }
  });
  return { out, ...counts };
}

/** Applies random transformations to random words, as many as the rate says. */
function* changeText(
  text: EditedText,
  parts: { readonly transformations: readonly Transformation[]; readonly constraints: readonly Constraint[] },
  rate: number,
  rng: Rng,
): ResourceGenerator<EditedText> {
  let current = text;
  const count = Math.max(1, Math.round(rate * text.length));
  for (let change = 0; change < count; change++) {
    const changed = yield* changeOnce(current, parts, rng);
    if (!changed) break;
    current = changed;
  }
  return current;
}

/** Applies the first of the transformations, in random order, that can change a random word. */
function* changeOnce(
  text: EditedText,
  parts: { readonly transformations: readonly Transformation[]; readonly constraints: readonly Constraint[] },
  rng: Rng,
): ResourceGenerator<EditedText | null> {
  for (const transformation of rng.shuffle([...parts.transformations])) {
    const positions = rng.shuffle([...Array(text.length).keys()]);
    // Some transformations need more than one position.
    const needsAll = transformation.kind === "text" || transformation.kind === "insert";
    for (const each of needsAll ? [positions] : positions.map((position) => [position])) {
      const candidates = yield* expandText({ ...parts, transformations: [transformation] }, text, each, rng);
      if (candidates.length > 0) return candidates[rng.integer(candidates.length)]!;
    }
  }
  return null;
}

function formatRow(task: Task, { label }: Example, texts: readonly string[]): string {
  const fields = task.fields.map((field, i) => [task.fields.length === 1 ? "text" : field, texts[i] ?? ""]);
  return `${JSON.stringify({ ...Object.fromEntries(fields), label: task.labels[label] })}\n`;
}
