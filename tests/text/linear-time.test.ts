import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { protectedKinds, protectSpans } from "../../src/attacks/constraints/protected-spans.js";
import { EditedText } from "../../src/attacks/edited-text.js";
import { parseSpec } from "../../src/base/spec.js";
import { removeControls, removeEscapes } from "../../src/cli/io.js";
import { getWords, listWindowSizes, listWindows, splitIntoGroups } from "../../src/proofs/certificates/index.js";
import { html } from "../../src/report/html.js";
import { checkStructure } from "../../src/serve/http.js";
import { dataOptions } from "../../src/settings/config.js";
import { readTable } from "../../src/tasks/read-table.js";
import { computeDedupKey } from "../../src/tasks/split-examples.js";
import { canonicalize } from "../../src/text/canonicalize.js";
import type { Tokenizer } from "../../src/text/encoding.js";
import { findWords, isOneWord, locateWords } from "../../src/text/find-words.js";
import { findHiddenText } from "../../src/text/hidden-text.js";
import { LineIndex } from "../../src/text/line-index.js";
import { looksEnglish } from "../../src/text/looks-english.js";
import { readInputs } from "../../src/text/read-inputs.js";
import { splitIntoPieces } from "../../src/text/text-pieces.js";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { splitWords } from "../../src/text/words.js";
import { chooseExtent } from "../extent.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();

/** Texts that make a regular expression or a loop start again and again. `fill` repeats a part. */
type Fill = (part: string) => string;
const shapes: Readonly<Record<string, (fill: Fill) => string>> = {
  "one word": (fill) => fill("a"),
  "short words": (fill) => fill("ab "),
  hyphens: (fill) => `a${fill("-")}a`,
  apostrophes: (fill) => `a${fill("'")}b`,
  "words with hyphens": (fill) => fill("a-"),
  "words with periods": (fill) => fill("a."),
  spaces: (fill) => `a${fill(" ")}a`,
  "only white space": (fill) => fill(" \n"),
  "spaced letters and a word": (fill) => `${fill("a ")}ab`,
  "combining marks": (fill) => `e${fill("\u0301")}`,
  "marks of two classes": (fill) => fill("e\u0327\u0301\u0338"),
  "zero width": (fill) => `a${fill("\u200b\u200c")}`,
  "tags and selectors": (fill) => fill("\u{e0061}\ufe01\u{e0101}"),
  "joined emoji": (fill) => fill("\u{1f469}\u200d"),
  "upside down": (fill) => `${fill("uɐ ")}h`,
  "look-alikes": (fill) => fill("а"),
  "opened brackets": (fill) => fill('a([{<"`'),
  "code and paths": (fill) => `\`\`\`${fill("$/.")}`,
  "digits and signs": (fill) => fill("1,"),
  "at signs": (fill) => `${fill("a@")}`,
  quotes: (fill) => fill('""\n'),
  equals: (fill) => `a${fill(" ")}b=`,
  escapes: (fill) => fill("\u001b[1"),
  "wide letters": (fill) => fill("ﷺ漢"),
};

let tokenizers: readonly Tokenizer[];
beforeAll(async () => {
  const folders = ["bert", "roberta", "xlm-roberta", "deberta-v2"].map((name) => `tests/fixtures/tokenizers/${name}`);
  tokenizers = await Promise.all(folders.map((each) => loadTokenizer(each)));
});

async function readAll(path: string): Promise<void> {
  for await (const _ of readInputs(path));
}

const read = async (name: string, text: string): Promise<void> => {
  const path = join(folder, name);
  writeFileSync(path, text);
  // Texts that are no tables are errors, which take no longer.
  await (name.endsWith(".txt") ? readAll(path) : readTable(path)).catch(() => undefined);
};

/** Everything that reads texts of users. */
const functions: Readonly<Record<string, (text: string) => unknown>> = {
  findWords,
  isOneWord,
  getWords,
  canonicalize,
  findHiddenText: (text) => findHiddenText([text]),
  splitWords: (text) => [splitWords(text), splitWords(text, true), splitWords(`é${text}`)],
  looksEnglish: (text) => looksEnglish([text]),
  computeDedupKey: (text) => computeDedupKey([text]),
  "encode of WordPiece": (text) => tokenizers[0]!.encode([text], 512),
  "encode of byte-level BPE": (text) => tokenizers[1]!.encode([text], 512),
  "encode of Unigram": (text) => tokenizers[2]!.encode([text], 512),
  "encode of DeBERTa": (text) => tokenizers[3]!.encode([text], 512),
  encodeWords: (text) => tokenizers[0]!.encodeWords([text], 512),
  listWindows: (text) => listWindows(text, listWindowSizes(4)),
  splitIntoGroups: (text) => splitIntoGroups([text], { groups: 5, hashSeed: 0 }),
  "words and what is between them": (text) => {
    const words = splitWords(text);
    const fields = new Uint8Array(words.length);
    locateWords([text], words, fields);
    return splitIntoPieces([text], words, fields);
  },
  protectSpans: (text) => {
    const edited = EditedText.create([text]);
    return edited.length > 0 && protectSpans(protectedKinds).isOpen!(edited, 0, "swap");
  },
  "one line of a text file": (text) => read("line.txt", text),
  "a CSV file": (text) => read("table.csv", `text,label\n${text}`),
  "a CSV file of one quoted text": (text) => read("table.csv", `text,label\n"${text.replaceAll('"', '""')}",1`),
  "a TSV file": (text) => read("table.tsv", `text\tlabel\n${text}`),
  "a file of JSON lines": (text) => read("table.jsonl", `${text}\n{"text": ${JSON.stringify(text)}}`),
  "the label map": (text) => dataOptions.labelMap.safeParse(text),
  parseSpec: (text) => {
    try {
      return parseSpec(`pwws:${text}`, "--attack");
    } catch {
      return null;
    }
  },
  removeControls,
  removeEscapes,
  LineIndex: (text) => new LineIndex(text),
  "the escapes of a report": (text) => html`<p>${text}</p>`,
  "the structure of a request": (text) => {
    try {
      checkStructure(Buffer.from(text), 3, 1e9, "{}");
    } catch {
      return null;
    }
    return null;
  },
};

const size = chooseExtent(1 << 15, 1 << 20);
/** Less time than this says nothing about an exponent. */
const minMilliseconds = 8;

/** CPU time, because others may use this host. */
async function measure(run: (text: string) => unknown, text: string): Promise<number> {
  const before = process.cpuUsage();
  await run(text);
  const { user, system } = process.cpuUsage(before);
  return Math.max(minMilliseconds, (user + system) / 1000);
}

/** The exponent of the time by the size. Each size is twice the one before. */
async function fitExponent(run: (text: string) => unknown, shape: (fill: Fill) => string): Promise<number> {
  const create = (length: number): string => shape((part) => part.repeat(Math.ceil(length / part.length)));
  const times: number[] = [];
  for (let length = size / 16; length <= size; length *= 2) {
    times.push(await measure(run, create(length)));
    // Quadratic time at the next size would be much longer, so the exponent is known.
    if (times.at(-1)! > 1000) break;
  }
  // Short texts take less than the shortest time that counts.
  const last = times.slice(-3);
  return Math.log2(last.at(-1)! / last[0]!) / (last.length - 1);
}

test.each(Object.entries(functions))("%s takes linear time", async (_, run) => {
  // The first call compiles and loads.
  await run("a text");
  for (const [name, shape] of Object.entries(shapes)) {
    let exponent = Number.POSITIVE_INFINITY;
    // A busy host can slow down one measurement, but hardly three.
    for (let i = 0; i < 3 && exponent > 1.5; i++) exponent = Math.min(exponent, await fitExponent(run, shape));
    expect({ name, exponent: exponent > 1.5 ? exponent : 1 }).toEqual({ name, exponent: 1 });
  }
});

test("the fit finds quadratic time", async () => {
  const isQuadratic = (text: string): number => text.length + text.search(/-+$/);
  expect(await fitExponent(isQuadratic, (fill) => `${fill("-")}a`)).toBeGreaterThan(1.5);
});
