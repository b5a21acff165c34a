import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { SafetensorsTensor } from "../../src/models/checkpoint/safetensors-writer.js";
import { temporaryFolder } from "../temporary.js";
import { getError } from "./invoke.js";
import { tinyConfig, writeTinyClassifier } from "./tiny-model.js";

const folder = temporaryFolder();
let tiny: string;

beforeAll(async () => {
  tiny = await writeTinyClassifier(join(folder, "tiny"));
});

/** A copy of the tiny model with some files replaced. */
function copy(name: string, files: Readonly<Record<string, string | Uint8Array>>): string {
  const target = join(folder, name);
  mkdirSync(target, { recursive: true });
  for (const file of ["config.json", "vocab.txt", "model.safetensors"])
    copyFileSync(join(tiny, file), join(target, file));
  for (const [file, content] of Object.entries(files)) writeFileSync(join(target, file), content);
  return target;
}

const weights = (): Buffer => readFileSync(join(tiny, "model.safetensors"));

/** The weights with a changed header and the same data. */
function changeHeader(
  change: (header: Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }>) => void,
): Buffer {
  const bytes = weights();
  const length = Number(bytes.readBigUInt64LE());
  const header = JSON.parse(bytes.toString("utf8", 8, 8 + length)) as Parameters<typeof change>[0];
  change(header);
  const text = Buffer.from(JSON.stringify(header));
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([prefix, text, bytes.subarray(8 + length)]);
}

const word = "bert.embeddings.word_embeddings.weight";
const scale = "bert.embeddings.LayerNorm.weight";

describe("models", () => {
  test("a folder that does not exist or contains no model", async () => {
    expect(await getError(["predict", "./no-such-folder"])).toContain("./no-such-folder: no such folder");
    expect(await getError(["predict", folder])).toContain("expected config.json (a model folder)");
    expect(await getError(["predict", "npm:no-such-package-here"])).toContain("npm install no-such-package-here");
  });

  test("truncated weights", async () => {
    for (const kept of [0, 5, 200, weights().length - 1]) {
      const message = await getError([
        "predict",
        copy(`cut-${kept}`, { "model.safetensors": weights().subarray(0, kept) }),
      ]);
      expect(message).toMatch(/model\.safetensors: .*(damaged or incomplete|empty)/s);
    }
  });

  test("a flipped bit anywhere in the header", async () => {
    const bytes = weights();
    // The lowest bit of a digit, the highest bit of a letter, and one bit of the header's length.
    const places = [bytes.indexOf('"shape":[1') + 9, bytes.indexOf("embeddings"), 1].map((at, i): [number, number] => [
      at,
      i === 1 ? 0x80 : 1,
    ]);
    for (const [at, bit] of places) {
      const flipped = Buffer.from(bytes);
      flipped[at] = flipped[at]! ^ bit;
      await getError(["predict", copy(`flipped-${at}`, { "model.safetensors": flipped })]);
    }
  });

  test("weights that are not finite", async () => {
    const broken = await writeTinyClassifier(join(folder, "infinite"), (tensors) =>
      tensors.map((tensor) =>
        tensor.name === scale
          ? { ...tensor, bytes: () => new Uint8Array(new Float32Array(8).fill(Infinity).buffer) }
          : tensor,
      ),
    );
    expect(await getError(["predict", broken])).toContain(`tensor ${scale} contains NaN or infinity`);
  });

  test.each<[string, Parameters<typeof changeHeader>[0]]>([
    [
      "sizes beyond the file",
      (header) => Object.assign(header[word]!, { shape: [1 << 20, 8], data_offsets: [0, 1 << 25] }),
    ],
    [
      "overlapping ranges",
      (header) =>
        Object.assign(header[scale]!, { data_offsets: header["bert.embeddings.LayerNorm.bias"]!.data_offsets }),
    ],
    ["a negative shape", (header) => Object.assign(header[word]!, { shape: [-10, 8] })],
    ["a huge shape", (header) => Object.assign(header[word]!, { shape: [2 ** 40, 2 ** 40] })],
    ["offsets that run backwards", (header) => header[word]!.data_offsets.reverse()],
    ["an unknown number type", (header) => Object.assign(header[word]!, { dtype: "F31" })],
  ])("an inconsistent header: %s", async (name, change) => {
    const message = await getError([
      "predict",
      copy(`lying-${name.replaceAll(" ", "-")}`, { "model.safetensors": changeHeader(change) }),
    ]);
    expect(message).toContain("model.safetensors");
  });

  test("a tensor that is missing or of another shape", async () => {
    const without = (tensors: SafetensorsTensor[]) => tensors.filter(({ name }) => name !== word);
    expect(await getError(["predict", await writeTinyClassifier(join(folder, "missing"), without)])).toContain(
      `The checkpoint lacks ${word} [10,8]`,
    );
    const config = JSON.stringify({ ...tinyConfig, intermediate_size: 32 });
    expect(await getError(["predict", copy("other-shape", { "config.json": config })])).toMatch(
      /tensor bert\.encoder\.layer\.0\.intermediate\.dense\.weight has shape \[16,8\], but config\.json requires \[32,8\]/,
    );
  });

  test("weights in a pickle", async () => {
    const target = join(folder, "pickled");
    mkdirSync(target);
    copyFileSync(join(tiny, "config.json"), join(target, "config.json"));
    copyFileSync(join(tiny, "vocab.txt"), join(target, "vocab.txt"));
    writeFileSync(join(target, "pytorch_model.bin"), "PK");
    expect(await getError(["predict", target])).toMatch(/pytorch_model\.bin.*safetensors/s);
  });

  test("an architecture that is not supported", async () => {
    const config = JSON.stringify({ ...tinyConfig, model_type: "gpt2" });
    expect(await getError(["predict", copy("gpt", { "config.json": config })])).toContain(
      'received "gpt2". It is a decoder-only model',
    );
    expect(await getError(["predict", copy("no-json", { "config.json": '{"model_type": bert}' })])).toMatch(
      /config\.json:1:16: /,
    );
  });

  test("a broken tokenizer", async () => {
    expect(
      await getError(["predict", copy("cut-tokenizer", { "tokenizer.json": '{"version": "1.0", "model": {' })]),
    ).toMatch(/tokenizer\.json:1:\d+: /);
    expect(await getError(["predict", copy("empty-tokenizer", { "tokenizer.json": "{}" })])).toMatch(
      /tokenizer\.json: .*expected/,
    );
  });

  test("a tokenizer of another model", async () => {
    const vocabulary = `${readFileSync(join(tiny, "vocab.txt"), "utf8")}more\nwords\n`;
    expect(await getError(["predict", copy("foreign", { "vocab.txt": vocabulary })], "more words")).toMatch(
      /12 tokens.*vocab_size.*10/,
    );
  });
});

describe("texts", () => {
  test("no texts", async () => {
    expect(await getError(["predict", tiny, "--json"], "")).toContain("standard input: no text found");
    expect(await getError(["predict", tiny, "-"], "\n \n")).toContain("standard input: no text found");
    expect(await getError(["predict", tiny, join(folder, "no-file.txt")])).toContain(
      "no-file.txt: there is no such file",
    );
  });

  test("bytes that are not UTF-8, with their line", async () => {
    const file = join(folder, "latin1.txt");
    writeFileSync(file, Buffer.from("un caf\xe9\na film\n", "latin1"));
    expect(await getError(["predict", tiny, file, "--json"])).toContain(`${file}:1: the line is not valid UTF-8`);
  });

  test("JSON lines of another form, with their line", async () => {
    const file = join(folder, "other.jsonl");
    writeFileSync(file, '{"sentence": "a film"}\n{"text": "a film"}\n');
    expect(await getError(["predict", tiny, file])).toContain(`${file}:1: expected {"text": "…"}`);
  });
});

describe("options", () => {
  test.each([
    [["--concurrency", "0"], "Expected an integer from 1 to 100000."],
    [["--max-length", "3"], "Expected an integer of at least 8."],
    [["--device", "gpu"], 'expected auto, cpu, cuda or cuda:N, received "gpu"'],
    [["--device", "cuda:99"], "cuda:99 is not available"],
    [["--tokenization", "words"], "Expected subword, word, released-word."],
    [["--jsn"], "(Did you mean --json?)"],
  ])("%j", async (options, expected) => {
    expect(await getError(["attack", tiny, "--task", "spam", ...options])).toContain(expected);
  });

  test("a tokenization other than the one in training", async () => {
    const facts = {
      format: 2,
      tokenization: "subword",
      head: "hf",
      maxLength: 12,
      task: "spam",
      labels: ["ham", "spam"],
    };
    const trained = copy("trained", { "config.json": JSON.stringify({ ...tinyConfig, temper: facts }) });
    expect(await getError(["attack", trained, "--tokenization", "word"])).toContain(
      "was trained with subword, received word",
    );
  });
});

describe("options that need another one", () => {
  test.each([
    [["attack", "m", "--true-label", "spam"], "--true-label is about the text of --input"],
    [["compare", "a", "b", "--column", "c"], "--column c: none of the folders is a sweep"],
  ])("%o", async (argv, message) => {
    expect(await getError(argv)).toContain(message);
  });
});

test("an output that is the input, and a folder of runs that does not exist", async () => {
  const table = join(folder, "texts.csv");
  writeFileSync(table, "text\na film\n");
  expect(await getError(["predict", tiny, table, "--out", table])).toContain("this is the input");
  expect(await getError(["studio", join(folder, "nope")])).toContain("no such folder");
});

test("tables in other encodings, with the command that converts them", async () => {
  const text = "text,label\na,0\nb,1\n";
  const marked = Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(text, "utf16le")]);
  for (const [name, bytes, encoding] of [
    ["marked.csv", marked, "UTF-16"],
    ["unmarked.csv", Buffer.from(text, "utf16le"), "UTF-16LE"],
    ["western.csv", Buffer.from("text,label\nné,0\n", "latin1"), "WINDOWS-1252"],
  ] as const) {
    writeFileSync(join(folder, name), bytes);
    const argv = ["train", "--model", tiny, "--data", join(folder, name), "--out", join(folder, "run")];
    expect(await getError(argv)).toContain(`iconv -f ${encoding} -t UTF-8 ${name}`);
  }
});
