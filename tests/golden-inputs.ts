import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { writeSafetensors } from "../src/models/checkpoint/safetensors-writer.js";

const praise = "good great wonderful brilliant charming fresh warm clever moving bright superb funny".split(" ");
const blame = "bad dull boring awful terrible stale cold stupid weak gray horrible tedious".split(" ");
const nouns = "film movie story plot scene actor script director ending music dialogue picture".split(" ");
const names = ["John", "Mary", "Paris", "London", "Hitchcock", "Michael"];
const adverbs = ["very", "really", "quite", "rather", "truly", "simply"];
const verbs = ["loved", "watched", "remember", "enjoyed", "saw", "expected"];
/**
 * Words that are in no review. The order and number of the words decide the random weights of the
 * model, so this list never changes.
 */
const otherWords =
  "said ve contradiction entailment " +
  "nice fine splendid magnificent beautiful intelligent smart touching shining amusing comic heated poor slow dreary " +
  "dreadful dire frigid stupid feeble grim ghastly tiresome awing flick tale narrative setting player manager finish " +
  "euphony duologue image extremely genuinely rattling clearly watch retrieve bask know anticipate is am are be been " +
  "not cannot have has do does hour hours minutes person people day time way";

/** The patterns of the reviews. {+} is a word of the label, {~} one of the opposite. */
const patterns = [
  "The {n} was {+}.",
  "I didn't expect such a {+} {n}, but it's {a} {+}!",
  "{P} and I {v} the {n}; we can't say that it isn't {+}.",
  "A {+} {n} with a {~} {n2}, and the {n} is what we remember.",
  'It wasn\'t "{~}" at all: the {n} is {a} {+}, the {n2} is {+}, and 2 hours were over in no time...',
  "{P}'s {n} (from 1997) is {+}",
  "THE {n} IS {+}! The {n2} is {a} {+}, too.",
  "After 90 minutes in {P}, I do not know what to say about the {n2}, which was {a} {+}, but you'll see: the {n} is {+}.",
  "Is there a {+} {n} in {P}? Yes, and it has {a} {+} music.",
  "well-made, {a} {+} and never {~}",
];

/** Returns numbers in [0, 1) that depend only on the seed (mulberry32). */
function createRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let value = Math.imul(state ^ (state >>> 15), state | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
}

function pick(random: () => number, from: readonly string[]): string {
  return from[Math.floor(random() * from.length)]!;
}

function fillPattern(pattern: string, isPositive: boolean, random: () => number): string {
  const [noun, other] = [pick(random, nouns), pick(random, nouns)];
  return pattern.replaceAll(/\{(.2?)\}/g, (_, kind: string) => {
    if (kind === "+" || kind === "~") return pick(random, (kind === "+") === isPositive ? praise : blame);
    if (kind === "n" || kind === "n2") return kind === "n" ? noun : other;
    return pick(random, { a: adverbs, v: verbs, P: names }[kind]!);
  });
}

function createReviews(count: number): string[][] {
  const random = createRandom(1);
  return Array.from({ length: count }, (_, i) => {
    const text = fillPattern(pick(random, patterns), i % 2 === 1, random);
    return [text, i % 2 === 1 ? "positive" : "negative"];
  });
}

/** Writes a BERT with random weights in the format of Hugging Face. */
async function writeTinyBert(folder: string, words: readonly string[]): Promise<void> {
  const letters = [..."abcdefghijklmnopqrstuvwxyz0123456789"];
  const special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
  const punctuation = [...".,;:!?()'\"-"];
  const pieces = [...letters, ...letters.map((letter) => `##${letter}`), "##s", "##ing", "##ed", "##ly"];
  const vocabulary = [...new Set([...special, ...punctuation, ...pieces, ...words])];
  const [hidden, inner, length] = [16, 32, 64];
  const config = {
    model_type: "bert",
    vocab_size: vocabulary.length,
    hidden_size: hidden,
    num_hidden_layers: 1,
    num_attention_heads: 2,
    intermediate_size: inner,
    max_position_embeddings: length,
  };
  const shapes: [string, number[]][] = [
    ["bert.embeddings.word_embeddings.weight", [vocabulary.length, hidden]],
    ["bert.embeddings.position_embeddings.weight", [length, hidden]],
    ["bert.embeddings.token_type_embeddings.weight", [2, hidden]],
  ];
  const addNorm = (name: string) => shapes.push([`${name}.weight`, [hidden]], [`${name}.bias`, [hidden]]);
  const addDense = (name: string, rows: number, columns: number) =>
    shapes.push([`${name}.weight`, [rows, columns]], [`${name}.bias`, [rows]]);
  const layer = "bert.encoder.layer.0";
  addNorm("bert.embeddings.LayerNorm");
  for (const part of ["query", "key", "value"]) addDense(`${layer}.attention.self.${part}`, hidden, hidden);
  addDense(`${layer}.attention.output.dense`, hidden, hidden);
  addNorm(`${layer}.attention.output.LayerNorm`);
  addDense(`${layer}.intermediate.dense`, inner, hidden);
  addDense(`${layer}.output.dense`, hidden, inner);
  addNorm(`${layer}.output.LayerNorm`);
  const random = createRandom(7);
  const tensors = shapes.map(([name, shape]) => {
    // LayerNorm starts as the identity. With random values, nothing is learned.
    const norm = name.endsWith("weight") ? 1 : 0;
    // Small position embeddings, so that the words matter most.
    const range = /position|token_type/.test(name) ? 0.1 : 1;
    const create = () => (name.includes("LayerNorm") ? norm : range * (random() - 0.5));
    const values = Float32Array.from({ length: shape.reduce((product, size) => product * size, 1) }, create);
    return { name, dtype: "F32" as const, shape, bytes: () => new Uint8Array(values.buffer) };
  });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeFileSync(join(folder, "vocab.txt"), `${vocabulary.join("\n")}\n`);
  await writeSafetensors(join(folder, "model.safetensors"), tensors);
}

/** Writes a tiny BERT, reviews and substitutions, and returns their paths. */
export async function writeGoldenInputs(
  folder: string,
): Promise<{ model: string; data: string; substitutions: string }> {
  const paths = {
    model: join(folder, "model"),
    data: join(folder, "reviews.csv"),
    substitutions: join(folder, "table.json"),
  };
  const reviews = createReviews(600);
  const lines = [["text", "label"], ...reviews].map((row) =>
    row.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(","),
  );
  writeFileSync(paths.data, `${lines.join("\n")}\n`);
  const opposites = praise.flatMap((word, i) => [
    [word, [blame[i], praise[(i + 1) % praise.length], blame[(i + 5) % blame.length]]],
    [blame[i], [word, blame[(i + 1) % blame.length]]],
  ]);
  const neutral = nouns.map((word, i) => [word, [nouns[(i + 1) % nouns.length], nouns[(i + 4) % nouns.length]]]);
  const stops = [
    ["the", ["a"]],
    ["is", ["was", "be"]],
    ["very", ["quite"]],
    ["n't", ["not"]],
    ["we", ["i"]],
  ];
  writeFileSync(paths.substitutions, JSON.stringify(Object.fromEntries([...opposites, ...neutral, ...stops])));
  const words =
    reviews
      .flat()
      .join(" ")
      .toLowerCase()
      .match(/[a-z]+|[0-9]+/g) ?? [];
  await writeTinyBert(paths.model, [...words, ...otherWords.split(" ")]);
  return paths;
}
