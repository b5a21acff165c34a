import { createHash } from "node:crypto";
import type { Attack } from "../../src/attacks/attack-definition.js";
import type { AttackExample } from "../../src/attacks/attack-space.js";
import { loadAttack } from "../../src/attacks/index.js";
import type { Candidate, Score, SearchProblem } from "../../src/attacks/search.js";
import type { PreparedInput, Victim, VictimInput } from "../../src/attacks/victim.js";

export interface ScriptedInput extends PreparedInput {
  readonly input: VictimInput;
}

/** A victim that answers by a function of the text ("_" for a masked word), and remembers what it was asked. */
export function scriptedVictim(
  classes: number,
  answer: (text: string) => readonly number[],
  capacity = 8,
): Victim<ScriptedInput> & { readonly calls: string[][] } {
  const calls: string[][] = [];
  return {
    calls,
    name: "script",
    numLabels: classes,
    hash: "0".repeat(64),
    hashes: { model: "m", tokenizer: "t" },
    isDeterministic: true,
    maxBatchSize: capacity,
    prepare: (input) => ({ input, content: input.texts("_").join("|"), length: input.words.length }),
    async probabilities(inputs) {
      calls.push(inputs.map(({ content }) => String(content)));
      return inputs.map(({ content }) => Float32Array.from(answer(String(content))));
    },
  };
}

/** Pseudo-random probabilities decided by the text alone. */
export function hashed(classes: number, salt = ""): (text: string) => number[] {
  return (text) => {
    const digest = createHash("sha256")
      .update(salt + text)
      .digest();
    const weights = Array.from({ length: classes }, (_, i) => 0.01 + digest.readUInt32LE(4 * i) / 2 ** 32);
    const total = weights.reduce((a, b) => a + b, 0);
    return weights.map((weight) => weight / total);
  };
}

export function targetOfChoices(
  id: string,
  choices: readonly (readonly string[])[],
  label = 0,
  maxChanged = choices.length,
): AttackExample {
  const words = choices.map((slots) => slots[0]!);
  return {
    id,
    label,
    texts: [words.join(" ")],
    words,
    fields: new Uint8Array(words.length),
    replacements: choices,
    maxChanged,
    withoutLanguageModel: false,
  };
}

export function problemOf(
  choices: readonly (readonly string[])[],
  original: readonly number[],
  maxChanged = choices.length,
): SearchProblem {
  return {
    id: "0",
    words: choices.map((slots) => slots[0]!),
    replacements: choices,
    label: 0,
    numLabels: original.length,
    originalScore: { probabilities: original },
    maxChanged,
  };
}

/** Runs a search by hand: every batch it asks is written down as text, and answered by a table of gold probabilities (two classes). */
export function drive(
  generator: Generator<Candidate[], Candidate, Score[]>,
  problem: SearchProblem,
  gold: (text: string) => number,
): { readonly asked: string[][]; readonly final: string } {
  const text = ({ replacementIndices: picks, mask }: Candidate) =>
    problem.replacements.map((slots, i) => (i === mask ? "_" : slots[picks[i]!]!)).join(" ");
  const asked: string[][] = [];
  let step = generator.next();
  while (!step.done) {
    const texts = step.value.map(text);
    asked.push(texts);
    step = generator.next(texts.map((line) => ({ probabilities: [gold(line), 1 - gold(line)] })));
  }
  return { asked, final: text(step.value) };
}

export async function attack(name: string, options: unknown = {}): Promise<Attack> {
  return loadAttack(name, options);
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}
