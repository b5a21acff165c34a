import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { Rng } from "../../../src/base/rng.js";
import { writeSafetensors } from "../../../src/models/checkpoint/safetensors-writer.js";
import { getEncoderParameterShapes, parseModelConfig } from "../../../src/models/index.js";
import { main } from "../../cli/built.js";
import { isLong } from "../../long.js";
import { temporaryFolder } from "../../temporary.js";
import { reviews, writeReviews } from "../../tiny-run.js";

const folder = temporaryFolder();
const model = join(folder, "model");
let data: string;

/** A model whose tensors are large enough for libtorch to divide them among threads. */
beforeAll(async () => {
  mkdirSync(model);
  const words = new Set(reviews(200).flatMap(({ text }) => text.split(" ")));
  const vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ...words];
  const sizes = { hidden_size: 128, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 512 };
  const config = { model_type: "bert", vocab_size: vocabulary.length, max_position_embeddings: 16, ...sizes };
  writeFileSync(join(model, "config.json"), JSON.stringify(config));
  writeFileSync(join(model, "vocab.txt"), `${vocabulary.join("\n")}\n`);
  const rng = new Rng("determinism");
  const tensors = [...getEncoderParameterShapes(parseModelConfig(config, "determinism"))].map(([name, shape]) => {
    const length = shape.reduce((product, size) => product * size, 1);
    const isNorm = name.includes("LayerNorm");
    const values = Float32Array.from({ length }, () => (isNorm ? Number(name.endsWith("weight")) : rng.next() / 10));
    return { name, dtype: "F32" as const, shape, bytes: () => new Uint8Array(values.buffer) };
  });
  await writeSafetensors(join(model, "model.safetensors"), tensors);
  data = writeReviews(join(folder, "reviews.tsv"), 300);
});

/** Trains in a process of its own and returns the files that must not differ. */
async function trainInProcess(name: string, threads: number): Promise<string[]> {
  const out = join(folder, name);
  const flags = ["--model", model, "--data", data, "--batch-size", "64", "--epochs", "2", "--learning-rate", "1e-3"];
  const child = spawn(
    process.execPath,
    [main, "train", ...flags, "--device", "cpu", "--threads", String(threads), "--out", out, "--quiet"],
    { stdio: ["ignore", "ignore", "inherit"] },
  );
  expect(await new Promise((resolve) => child.once("exit", resolve))).toBe(0);
  return ["events.jsonl", "results.json", "model/model.safetensors"].map((file) =>
    readFileSync(join(out, file)).toString("base64"),
  );
}

// In make test, tests of killed runs compare processes with one thread.
test.skipIf(!isLong).each([1, 2])(
  "two processes at once, with %i threads each, give bitwise identical runs (in make test-long)",
  async (threads) => {
    const [first, second] = await Promise.all([
      trainInProcess(`first-${threads}`, threads),
      trainInProcess(`second-${threads}`, threads),
    ]);
    expect(second).toEqual(first);
  },
);
