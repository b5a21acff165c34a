import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Rng } from "../../src/base/rng.js";
import { strangeText } from "./strange-texts.js";

/** The tokenizers of the families, and a digest of what transformers returned for some texts. */
export const tokenizerFixtures = "tests/fixtures/tokenizers";
export const recordedPath = join(tokenizerFixtures, "digests.json");
export const numRecorded = 200;
export const maxLength = 24;

/** A Python that has transformers. If it is set, tests compare many more texts with it. */
export const python = process.env.TEMPER_CHECK_TOKENIZERS;

/** Reads the recorded digests of one tokenizer. */
export function readDigests(name: string): string[] {
  return JSON.parse(readFileSync(recordedPath, "utf8"))[name];
}

/** Returns single texts and pairs in turn. Lone surrogates do not exist in Python. */
export function createInputs(count: number): string[][] {
  const rng = new Rng("transformers");
  const next = () => strangeText(rng).replace(/\p{Surrogate}/gu, "\ufffd");
  return Array.from({ length: count }, (_, index) => (index % 4 === 0 ? [next(), next()] : [next()]));
}

/** Returns the digests of what transformers computes. */
export function encodeWithTransformers(folder: string, inputs: readonly string[][]): string[] {
  const request = JSON.stringify({ folder, maxLength, inputs });
  const program = "tools/fixtures/encode-with-transformers.py";
  return JSON.parse(
    execFileSync(python!, [program], { input: request, encoding: "utf8", maxBuffer: 1 << 28, stdio: "pipe" }),
  );
}
