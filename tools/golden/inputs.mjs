// The inputs of the golden values: a tiny BERT, reviews, pairs of sentences and substitutions. Nothing here imports
// the library, so that the same inputs can be written before and after any change of it.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const praise = "good great wonderful brilliant charming fresh warm clever moving bright superb funny".split(" ");
const blame = "bad dull boring awful terrible stale cold stupid weak gray horrible tedious".split(" ");
const nouns = "film movie story plot scene actor script director ending music dialogue picture".split(" ");
const names = ["John", "Mary", "Paris", "London", "Hitchcock", "Michael"];
const adverbs = ["very", "really", "quite", "rather", "truly", "simply"];
const verbs = ["loved", "watched", "remember", "enjoyed", "saw", "expected"];
/** Words that only attacks write. They are in the vocabulary, so that substitutes differ for the victim. */
const synonyms =
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

/** Numbers in [0, 1) that depend only on the seed (mulberry32). @param {number} seed */
function createRandom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let value = Math.imul(state ^ (state >>> 15), state | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** @param {() => number} random @param {readonly string[]} from */
function pick(random, from) {
  return /** @type {string} */ (from[Math.floor(random() * from.length)]);
}

/** @param {string} pattern @param {boolean} isPositive @param {() => number} random */
function fillPattern(pattern, isPositive, random) {
  const [noun, other] = [pick(random, nouns), pick(random, nouns)];
  return pattern.replaceAll(/\{(.2?)\}/g, (_, kind) => {
    if (kind === "+" || kind === "~") return pick(random, (kind === "+") === isPositive ? praise : blame);
    if (kind === "n" || kind === "n2") return kind === "n" ? noun : other;
    return pick(random, { a: adverbs, v: verbs, P: names }[/** @type {"a" | "v" | "P"} */ (kind)]);
  });
}

/** @param {number} count @param {number} seed */
function createReviews(count, seed) {
  const random = createRandom(seed);
  return Array.from({ length: count }, (_, i) => {
    const text = fillPattern(pick(random, patterns), i % 2 === 1, random);
    return [text, i % 2 === 1 ? "positive" : "negative"];
  });
}

/** @param {number} count @param {number} seed */
function createPairs(count, seed) {
  const random = createRandom(seed);
  return Array.from({ length: count }, (_, i) => {
    const premise = fillPattern("{P} said that the {n} wasn't {~}, and {a} {+}.", true, random);
    const hypothesis = fillPattern("The {n} is {a} {+}; I've {v} it", i % 2 === 1, random);
    return [premise, hypothesis, i % 2 === 1 ? "entailment" : "contradiction"];
  });
}

/** @param {string} path @param {readonly (readonly string[])[]} rows */
function writeCsv(path, rows) {
  const quote = (/** @type {string} */ cell) => `"${cell.replaceAll('"', '""')}"`;
  writeFileSync(path, `${rows.map((row) => row.map(quote).join(",")).join("\n")}\n`);
}

/** @param {string} path @param {readonly { name: string, shape: number[], values: Float32Array }[]} tensors */
function writeSafetensors(path, tensors) {
  let end = 0;
  const entries = tensors.map(({ name, shape, values }) => {
    const start = end;
    end += values.byteLength;
    return [name, { dtype: "F32", shape, data_offsets: [start, end] }];
  });
  const text = JSON.stringify(Object.fromEntries(entries));
  const header = Buffer.from(text.padEnd(Math.ceil(text.length / 8) * 8));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(header.length));
  writeFileSync(path, Buffer.concat([size, header, ...tensors.map(({ values }) => Buffer.from(values.buffer))]));
}

/** Writes a BERT with random weights in the format of Hugging Face. @param {string} folder @param {string[]} words */
function writeTinyBert(folder, words) {
  const letters = [..."abcdefghijklmnopqrstuvwxyz0123456789"];
  const special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
  const punctuation = [...".,;:!?()'\"-"];
  const pieces = [...letters, ...letters.map((letter) => `##${letter}`), "##s", "##ing", "##ed", "##ly"];
  const vocabulary = [...new Set([...special, ...punctuation, ...pieces, ...words])];
  const [hidden, inner, length] = [16, 32, 64];
  const config = {
    ...{ model_type: "bert", vocab_size: vocabulary.length, hidden_size: hidden, num_hidden_layers: 1 },
    ...{ num_attention_heads: 2, intermediate_size: inner, max_position_embeddings: length },
  };
  /** @type {[string, number[]][]} */
  const shapes = [
    ["bert.embeddings.word_embeddings.weight", [vocabulary.length, hidden]],
    ["bert.embeddings.position_embeddings.weight", [length, hidden]],
    ["bert.embeddings.token_type_embeddings.weight", [2, hidden]],
  ];
  const addNorm = (/** @type {string} */ name) => shapes.push([`${name}.weight`, [hidden]], [`${name}.bias`, [hidden]]);
  const addDense = (/** @type {string} */ name, /** @type {number} */ rows, /** @type {number} */ columns) =>
    shapes.push([`${name}.weight`, [rows, columns]], [`${name}.bias`, [rows]]);
  addNorm("bert.embeddings.LayerNorm");
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    const name = `bert.encoder.layer.${layer}`;
    for (const part of ["query", "key", "value"]) addDense(`${name}.attention.self.${part}`, hidden, hidden);
    addDense(`${name}.attention.output.dense`, hidden, hidden);
    addNorm(`${name}.attention.output.LayerNorm`);
    addDense(`${name}.intermediate.dense`, inner, hidden);
    addDense(`${name}.output.dense`, hidden, inner);
    addNorm(`${name}.output.LayerNorm`);
  }
  const random = createRandom(7);
  const tensors = shapes.map(([name, shape]) => {
    const count = shape.reduce((product, size) => product * size, 1);
    // LayerNorm starts as the identity. With random values, nothing is learned.
    const norm = name.endsWith("weight") ? 1 : 0;
    // Small position embeddings, so that the words matter most.
    const range = /position|token_type/.test(name) ? 0.1 : 1;
    const create = () => (name.includes("LayerNorm") ? norm : range * (random() - 0.5));
    return { name, shape, values: Float32Array.from({ length: count }, create) };
  });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeFileSync(join(folder, "vocab.txt"), `${vocabulary.join("\n")}\n`);
  writeSafetensors(join(folder, "model.safetensors"), tensors);
}

/** Writes all inputs and returns their paths. @param {string} folder */
export function writeInputs(folder) {
  const paths = {
    model: join(folder, "model"),
    reviews: join(folder, "reviews.csv"),
    more: join(folder, "more.csv"),
    pairs: join(folder, "pairs.csv"),
    morePairs: join(folder, "more-pairs.csv"),
    table: join(folder, "table.json"),
    texts: join(folder, "texts.txt"),
  };
  mkdirSync(folder, { recursive: true });
  const reviews = createReviews(600, 1);
  const pairs = createPairs(160, 3);
  writeCsv(paths.reviews, [["text", "label"], ...reviews]);
  writeCsv(paths.more, [["text", "label"], ...createReviews(40, 2)]);
  writeCsv(paths.pairs, [["premise", "hypothesis", "label"], ...pairs]);
  writeCsv(paths.morePairs, [["premise", "hypothesis", "label"], ...createPairs(20, 4)]);
  writeFileSync(
    paths.texts,
    `${createReviews(300, 5)
      .map(([text]) => text)
      .join("\n")}\n`,
  );
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
  writeFileSync(paths.table, JSON.stringify(Object.fromEntries([...opposites, ...neutral, ...stops])));
  const texts = [...reviews, ...pairs].flat().join(" ").toLowerCase();
  writeTinyBert(paths.model, [...(texts.match(/[a-z]+|[0-9]+/g) ?? []), ...synonyms.split(" ")]);
  return paths;
}
