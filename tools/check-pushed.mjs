// Trains a tiny model of every family, tokenization and head, and compares the predictions of the folder that `temper push`
// would upload in transformers, transformers.js and ONNX Runtime with `temper predict` on 1,000 emails. No other library
// tokenizes like a word model with byte-level BPE: there, loading a tokenizer must fail, and the models get Temper's tokens.
// Usage: node tools/check-pushed.mjs [FAMILY …] (after a build; TEMPER_PYTHON has torch and transformers)
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { AutoModelForSequenceClassification, AutoTokenizer, env, Tensor } from "@huggingface/transformers";
import { createPushedFiles } from "../dist/actions/push.js";
import { Rng } from "../dist/base/rng.js";
import { softmax } from "../dist/base/softmax.js";
import { loadClassifier, loadTask, train as trainRun } from "../dist/index.js";
import { openSafetensors } from "../dist/models/checkpoint/safetensors.js";
import { writeSafetensors } from "../dist/models/checkpoint/safetensors-writer.js";
import { classify as classifyTokens, tokenizeAll } from "../dist/models/index.js";
import { findOnnxRuntime } from "../dist/onnx/find-onnx-runtime.js";
import { openOnnxClassifier } from "../dist/onnx/onnx-classifier.js";
import { RunFolder } from "../dist/runs/run-folder.js";
import { loadTokenizer } from "../dist/text/tokenizer.js";

const numTexts = 1000;
const limit = 1e-4;
/** Texts of a SentencePiece model that transformers.js may read with other tokens: those with damaged characters. */
const maxOtherTokens = 5;
const fixtures = fileURLToPath(new URL("../tests/fixtures", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "temper-pushed-"));
const data = join(folder, "reviews.jsonl");

/** The tiny model of a family with the tokenizer of the family. Its word embeddings are new. */
async function writeEncoder(name) {
  const [source, target] = [join(fixtures, "families", name), join(folder, name)];
  mkdirSync(target);
  const tokenizerName = name.replace(/-mean$/, "").replace("deberta-v3", "deberta-v2");
  cpSync(join(fixtures, "tokenizers", tokenizerName), target, { recursive: true });
  // Version 4 of transformers expects an object here, version 5 writes a list.
  const configPath = join(target, "tokenizer_config.json");
  const { extra_special_tokens: _, ...tokenizerConfig } = JSON.parse(readFileSync(configPath, "utf8"));
  writeFileSync(configPath, JSON.stringify(tokenizerConfig));
  const { vocabSize, special } = await loadTokenizer(target);
  const config = readFileSync(join(source, "config.json"), "utf8")
    .replace(/"vocab_size": \d+/, `"vocab_size": ${vocabSize}`)
    .replace(/"pad_token_id": \d+/, `"pad_token_id": ${special.padId}`);
  writeFileSync(join(target, "config.json"), config);
  const file = await openSafetensors(join(source, "model.safetensors"));
  const tensors = [...file.entries].flatMap(([key, { shape }]) => {
    if (/^(pre_)?classifier\.|^head\./.test(key)) return [];
    const isEmbedding = /(word|tok)_embeddings\.weight$/.test(key);
    const size = isEmbedding ? [vocabSize, shape[1]] : shape;
    const rng = new Rng(key);
    const draw = () => Float32Array.from({ length: size[0] * size[1] }, () => rng.next() - 0.5);
    return [
      {
        name: key,
        dtype: "F32",
        shape: size,
        bytes: () => (isEmbedding ? new Uint8Array(draw().buffer) : file.readSync(key)),
      },
    ];
  });
  await writeSafetensors(join(target, "model.safetensors"), tensors);
  await file.close();
  return target;
}

async function writePushed(run, out) {
  for (const { path, content } of await createPushedFiles(run, await run.results())) {
    mkdirSync(dirname(join(out, path)), { recursive: true });
    writeFileSync(
      join(out, path),
      content instanceof URL ? readFileSync(content) : Buffer.from(await content.arrayBuffer()),
    );
  }
}

const compare = (expected, actual) =>
  Math.max(...expected.map((row, i) => Math.max(...row.map((value, j) => Math.abs(value - actual[i][j])))));

/** The probabilities of transformers.js. `ids` are the tokens of each text. */
async function classifyInJavaScript(name, ids) {
  const model = await AutoModelForSequenceClassification.from_pretrained(name, { dtype: "fp32" });
  const rows = [];
  for (const tokens of ids) {
    const fill = (value) => new Tensor("int64", BigInt64Array.from(tokens, value), [1, tokens.length]);
    const inputs = { input_ids: fill(BigInt), attention_mask: fill(() => 1n), token_type_ids: fill(() => 0n) };
    rows.push(softmax([...(await model(inputs)).logits.data]));
  }
  await model.dispose();
  return rows;
}

try {
  const emails = await (await loadTask({ task: "spam" })).load("test");
  // Some texts are truncated, and some are short enough for the tiny models.
  const cut = ([text], i) =>
    text
      .split(/\s+/)
      .slice(i % 7, (i % 7) + 1 + (i % 24))
      .join(" ");
  const texts = emails.slice(0, numTexts).map((email, i) => cut(email.texts, i));
  const toRow = (text, i) => JSON.stringify({ text, label: ["bad", "mixed", "good"][i % 3] });
  writeFileSync(data, `${texts.slice(0, 60).map(toRow).join("\n")}\n`);
  const { runtime, problem } = findOnnxRuntime();
  if (problem) throw new Error(problem);
  env.allowRemoteModels = false;
  env.localModelPath = folder;
  const checked = [];
  for (const family of readdirSync(join(fixtures, "families"))) {
    if (process.argv.length > 2 && !process.argv.includes(family)) continue;
    const model = await writeEncoder(family);
    for (const tokenization of ["subword", "word"])
      for (const head of ["hf", "mlp"]) {
        const name = `${family}-${tokenization}-${head}`;
        const config = { model, data, textColumn: ["text"], labelColumn: "label", tokenization, head, maxLength: 20 };
        const train = { epochs: 1, batchSize: 8, learningRate: 1e-2 };
        await trainRun({ ...config, device: "cpu", threads: 1, train, out: join(folder, `${name}-run`) });
        const out = join(folder, name);
        await writePushed(await RunFolder.open(join(folder, `${name}-run`)), out);
        const classifier = await loadClassifier(join(folder, `${name}-run`), { device: "cpu", threads: 1 });
        const predictions = await classifier.classify(texts);
        const expected = predictions.map(({ probabilities }) => Object.values(probabilities));
        const { note } = JSON.parse(readFileSync(join(out, "config.json"), "utf8")).temper;
        const encodings = tokenizeAll(
          classifier.model,
          texts.map((text) => [text]),
        );
        const hasTokenizer = !note?.includes("first piece");
        const result = { name, note: note ?? null, expected, differences: {}, ids: null };
        checked.push(result);
        const { padId } = classifier.model.tokenizer.special;
        const bytes = readFileSync(join(out, "onnx/model.onnx"));
        const { labels } = classifier.model;
        const onnx = await openOnnxClassifier(runtime, bytes, { name, labels, padId, threads: 1, isQuantized: false });
        result.differences.onnx = compare(expected, (await classifyTokens(onnx, encodings)).map(softmax));
        onnx.close();
        const tokenizer = await AutoTokenizer.from_pretrained(name).catch(() => null);
        if (tokenizer && hasTokenizer) {
          // The option truncation of transformers.js cuts off the last special token, so cut before it.
          const cutTokens = (ids) =>
            ids.length > config.maxLength ? [...ids.slice(0, config.maxLength - 1), ids.at(-1)] : ids;
          const ids = texts.map((text) => cutTokens(tokenizer.encode(text)));
          // It has no character table of SentencePiece, so it may split texts with rare characters in another way.
          const hasTable = readFileSync(join(out, "tokenizer.json"), "utf8").includes('"Precompiled"');
          const isSame = (i) => !hasTable || String(ids[i]) === String(Array.from(encodings[i].ids));
          const rows = await classifyInJavaScript(
            name,
            ids.filter((_, i) => isSame(i)),
          );
          result.differences["transformers.js"] = compare(
            expected.filter((_, i) => isSame(i)),
            rows,
          );
          result.otherTokens = texts.length - rows.length;
          if (result.otherTokens > maxOtherTokens) result.differences["texts with other tokens"] = result.otherTokens;
        } else {
          result.ids = encodings.map(({ ids }) => Array.from(ids));
          result.differences["transformers.js (tokens)"] = compare(
            expected,
            await classifyInJavaScript(name, result.ids),
          );
          if (hasTokenizer || tokenizer) result.differences["presence of a tokenizer"] = 1;
        }
        result.truncated = predictions.filter(({ truncated }) => truncated).length;
        await classifier.close();
      }
  }
  // transformers has no mlp head.
  const readable = checked.filter(({ name }) => !name.endsWith("-mlp"));
  const folders = readable.map(({ name, ids }) => ({ folder: join(folder, name), ids }));
  const request = JSON.stringify({ folders, texts });
  const script = fileURLToPath(new URL("check-pushed.py", import.meta.url));
  const { version, answers } = JSON.parse(
    execFileSync(process.env.TEMPER_PYTHON ?? "python3", [script], {
      input: request,
      encoding: "utf8",
      maxBuffer: 1 << 30,
      stdio: ["pipe", "pipe", process.env.VERBOSE ? "inherit" : "ignore"],
    }),
  );
  readable.forEach((result, i) => {
    result.differences.transformers =
      answers[i] === null ? "not in this version" : compare(result.expected, answers[i]);
  });
  let failures = 0;
  for (const { name, note, differences, truncated, otherTokens } of checked) {
    const isClose = Object.values(differences).every((value) => !(value > limit));
    failures += Number(!isClose);
    const numbers = Object.entries(differences).map(
      ([key, value]) => `${key} ${typeof value === "number" ? value.toExponential(1) : value}`,
    );
    const others = otherTokens ? [`${otherTokens} texts with other tokens in transformers.js left out`] : [];
    const details = [...numbers, `${truncated} truncated texts`, ...others, ...(note ? [note] : [])];
    console.log(`${isClose ? "ok" : "FAILED"}  ${name}: ${details.join(", ")}`);
  }
  console.log(
    `transformers ${version}, ${texts.length} texts: ${checked.length} models, ${failures} differ by more than ${limit}`,
  );
  process.exitCode = failures > 0 ? 1 : 0;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
