import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { train } from "../../../src/actions/train/train.js";
import { Rng } from "../../../src/base/rng.js";
import type { MethodSpec } from "../../../src/methods/index.js";
import { tinyRun } from "../../tiny-run.js";

const praise = ["good", "fine", "bright", "warm"];
const blame = ["bad", "dull", "grey", "cold"];
export const words: readonly string[] = [...praise, ...blame, "film", "plot", "scene", "very", "the", "unknown"];

/** Texts in which most words tell the label, so that groups of words can vote. */
export function createReviews(count: number, seed: number | string): { text: string; label: string }[] {
  const rng = new Rng(seed);
  return Array.from({ length: count }, (_, i) => {
    const own = i % 2 ? praise : blame;
    const draw = (): string => (rng.next() < 0.7 ? own[rng.integer(own.length)]! : words[rng.integer(words.length)]!);
    return { text: Array.from({ length: 10 }, draw).join(" "), label: i % 2 ? "positive" : "negative" };
  });
}

function writeReviewFile(path: string, count: number, seed: number | string): string {
  const rows = createReviews(count, seed).map(({ text, label }) => `${text}\t${label}`);
  writeFileSync(path, `text\tlabel\n${rows.join("\n")}\n`);
  return path;
}

/** Trains a model of a few hundred weights on such texts. */
export async function trainCertified(
  folder: string,
  name: string,
  methods: readonly MethodSpec[],
  normalize: "none" | "canonical" = "none",
): Promise<string> {
  const data = writeReviewFile(join(folder, "long-reviews.tsv"), 400, "train");
  const config = await tinyRun(folder, { data, methods: [...methods], normalize });
  const out = join(folder, name);
  await train({ ...config, out });
  return out;
}

/** Asks a served model. */
export async function postTexts(url: string, texts: readonly unknown[]): Promise<{ status: number; answer: unknown }> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${url}predict`, { method: "POST", headers, body: JSON.stringify({ texts }) });
  return { status: response.status, answer: await response.json() };
}
