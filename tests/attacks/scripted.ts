import { createHash } from "node:crypto";
import type { ReadyAttack } from "../../src/attacks/define-attack.js";
import { EditedText } from "../../src/attacks/edited-text.js";
import { equipAttack, loadAttack } from "../../src/attacks/load-attack.js";
import { SearchPool } from "../../src/attacks/pool.js";
import type { Constraint, RunOptions } from "../../src/attacks/protocol.js";
import type { ResourceRequest } from "../../src/attacks/requests.js";
import type { AttackResources, NeighborTable } from "../../src/attacks/resources.js";
import type { AttackResult } from "../../src/attacks/result.js";
import { type Query, renderQuery, runRecipe } from "../../src/attacks/run-recipe.js";
import type { AbleVictim, Victim, WordReader } from "../../src/attacks/victim.js";
import type { Rng } from "../../src/base/rng.js";
import { splitCalls } from "../../src/models/inference/predict-in-calls.js";
import type { Identified, PreparedText } from "../../src/models/inference/predictor.js";
import type { Example } from "../../src/tasks/example.js";
import type { WordFinder } from "../../src/text/find-words.js";

export type ScriptedVictim = Victim & Required<WordReader> & Identified & { readonly calls: string[][] };

/** Words are what is between spaces, whatever it is. */
const findBetweenSpaces: WordFinder = (texts) =>
  texts.flatMap((text, field) =>
    [...text.matchAll(/[^ ]+/g)].map(({ index, 0: word }) => ({ field, start: index, end: index + word.length })),
  );

/**
 * A victim that answers with a function of the text ("_" for a hidden word), and records its calls.
 */
export function scriptedVictim(
  numLabels: number,
  answer: (text: string) => readonly number[],
  maxTexts = 8,
): ScriptedVictim {
  const calls: string[][] = [];
  return splitCalls({
    calls,
    name: "script",
    numLabels,
    hash: "0".repeat(64),
    hashes: { model: "m", tokenizer: "t" },
    isDeterministic: true,
    unkToken: "_",
    callLimits: { maxTexts },
    findWords: findBetweenSpaces,
    findAllWords: findBetweenSpaces,
    prepare: (inputs) =>
      inputs.map((texts) => {
        const content = texts.join("|");
        return { content, length: content.split(/\s+/).length };
      }),
    async predict(items: readonly PreparedText[]) {
      calls.push(items.map(({ content }) => String(content)));
      return items.map(({ content }) => ({ probabilities: Float32Array.from(answer(String(content))) }));
    },
  });
}

/** Pseudo-random probabilities that depend only on the text. */
export function hashed(numLabels: number, salt = ""): (text: string) => number[] {
  return (text) => {
    const digest = createHash("sha256")
      .update(salt + text)
      .digest();
    const weights = Array.from({ length: numLabels }, (_, i) => 0.01 + digest.readUInt32LE(4 * i) / 2 ** 32);
    const total = weights.reduce((a, b) => a + b, 0);
    return weights.map((weight) => weight / total);
  };
}

/** The words of a text, each with its substitutes. */
export type Replacements = readonly (readonly string[])[];

export interface ScriptedExample extends Example {
  readonly replacements: Replacements;
}

export function createExample(id: string, replacements: Replacements, label = 0): ScriptedExample {
  return { id, label, texts: [replacements.map(([word]) => word!).join(" ")], replacements };
}

/** The table with these substitutes of words. */
export function createTable(replacements: Replacements, hash = "script"): NeighborTable {
  const lists = new Map(replacements.map(([word, ...substitutes]) => [word!, substitutes]));
  return {
    name: "script",
    hash,
    usesPartOfSpeech: false,
    getSubstitutes: (word) => lists.get(word) ?? [],
  };
}

/** Creates an attack whose table has the substitutes of some examples. */
export async function createTableAttack(
  spec: Parameters<typeof loadAttack>[0],
  examples: readonly { readonly replacements: Replacements }[],
  constraints: readonly Constraint[] = [],
  hash?: string,
): Promise<ReadyAttack> {
  const table = createTable(
    examples.flatMap(({ replacements }) => replacements),
    hash,
  );
  const resources: Partial<AttackResources> = {
    substitutions: table,
    caseInsensitiveSubstitutes: table,
    neighbors: table,
    wordnet: { hash: "script", getLemmas: (word) => table.getSubstitutes(word) },
    labels: ["0", "1"],
  };
  return equipAttack(await loadAttack(spec), resources, constraints);
}

/** Answers the queries of a recipe with a function of the text, and every word's part of speech with "noun". */
export function answerQueries(
  generator: ReturnType<typeof runRecipe>,
  answer: (text: string) => readonly number[],
  maxSteps = Number.POSITIVE_INFINITY,
): { readonly batches: string[][]; readonly result: AttackResult } {
  const batches: string[][] = [];
  let step = generator.next([]);
  for (let steps = 0; !step.done; steps++) {
    if (steps === maxSteps) throw new Error(`no end after ${maxSteps} steps`);
    const asked = step.value as readonly Query[] | ResourceRequest;
    if ("resource" in asked) {
      step = generator.next(asked.inputs.map(() => "noun"));
      continue;
    }
    const texts = asked.map((query) => renderQuery(query, "_").join("|"));
    batches.push(texts);
    step = generator.next(texts.map((text) => ({ probabilities: answer(text) })));
  }
  return { batches, result: step.value };
}

/** Runs an attack on one example by hand. `gold` has the probability of its label, or a row of probabilities. */
export function drive(
  attack: ReadyAttack,
  example: Example,
  gold: (text: string) => number | readonly number[],
  rng: Rng,
): { readonly queries: string[][]; readonly final: string; readonly result: AttackResult } {
  const generator = runRecipe(example, EditedText.create(example.texts, findBetweenSpaces), attack, rng);
  const { batches, result } = answerQueries(generator, (text) => {
    const answer = gold(text);
    return typeof answer === "number" ? [answer, 1 - answer] : answer;
  });
  // The original text comes first, and the final text last.
  return { queries: batches.slice(1, -1), final: result.finalTexts.join("|"), result };
}

/** Attacks examples with the table of their substitutes. */
export async function attackExamples(
  victim: AbleVictim,
  spec: Parameters<typeof loadAttack>[0],
  examples: readonly ScriptedExample[],
  options: Partial<RunOptions> = {},
): Promise<AttackResult[]> {
  const attack = await createTableAttack(spec, examples);
  return collect(new SearchPool(victim).run(examples, attack, { seed: 1, ...options }));
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}
