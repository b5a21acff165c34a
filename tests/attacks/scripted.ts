import { createHash } from "node:crypto";
import type { AttackExample } from "../../src/attacks/attack-space.js";
import type { Candidate, Score, SearchProblem } from "../../src/attacks/search.js";
import type { PreparedInput, Victim, VictimInput } from "../../src/attacks/victim.js";

export interface ScriptedInput extends PreparedInput {
  readonly input: VictimInput;
}

/**
 * A victim that answers with a function of the text ("_" for a masked word), and records its calls.
 */
export function scriptedVictim(
  numLabels: number,
  answer: (text: string) => readonly number[],
  maxBatchSize = 8,
): Victim<ScriptedInput> & { readonly calls: string[][] } {
  const calls: string[][] = [];
  return {
    calls,
    name: "script",
    numLabels,
    hash: "0".repeat(64),
    hashes: { model: "m", tokenizer: "t" },
    isDeterministic: true,
    maxBatchSize,
    prepare: (input) => ({ input, content: input.texts("_").join("|"), length: input.words.length }),
    async probabilities(inputs) {
      calls.push(inputs.map(({ content }) => String(content)));
      return inputs.map(({ content }) => Float32Array.from(answer(String(content))));
    },
  };
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

export function createExample(
  id: string,
  replacements: readonly (readonly string[])[],
  label = 0,
  maxChanged = replacements.length,
): AttackExample {
  const words = replacements.map(([word]) => word!);
  return {
    id,
    label,
    texts: [words.join(" ")],
    words,
    fields: new Uint8Array(words.length),
    replacements,
    maxChanged,
  };
}

export function createProblem(
  replacements: readonly (readonly string[])[],
  original: readonly number[],
  maxChanged = replacements.length,
): SearchProblem {
  return {
    id: "0",
    words: replacements.map(([word]) => word!),
    replacements,
    label: 0,
    numLabels: original.length,
    originalScore: { probabilities: original },
    maxChanged,
  };
}

/**
 * Runs a search by hand. It records every batch as text and answers with gold probabilities (two
 * classes).
 */
export function drive(
  generator: Generator<Candidate[], Candidate, Score[]>,
  problem: SearchProblem,
  gold: (text: string) => number,
): { readonly queries: string[][]; readonly final: string } {
  const text = ({ replacementIndices, mask }: Candidate) =>
    problem.replacements.map((words, i) => (i === mask ? "_" : words[replacementIndices[i]!]!)).join(" ");
  const queries: string[][] = [];
  let step = generator.next();
  while (!step.done) {
    const texts = step.value.map(text);
    queries.push(texts);
    step = generator.next(texts.map((line) => ({ probabilities: [gold(line), 1 - gold(line)] })));
  }
  return { queries, final: text(step.value) };
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}
