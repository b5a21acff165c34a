import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { EditedText } from "../../src/attacks/edited-text.js";
import type { Tokenization } from "../../src/text/encoding.js";
import { findWordPlaces } from "../../src/text/find-words.js";
import { loadTokenizer } from "../../src/text/tokenizer.js";

const fixtures = "tests/fixtures";
const folders = ["bert-tiny", "roberta-tiny"].map((name) => join(fixtures, name));

// Words with characters that join their neighbors, or that a tokenizer reads as spaces or not at all.
const word = fc.constantFrom(
  ..."good film. didn't e-mail 中文 naïve café! a\u0301 x\u200by [SEP] <s> 's can't (so) ... \u2003 ΑΒΓ привет 3.50 tre\u00adat".split(
    " ",
  ),
  "two words",
  "",
);
const separator = fc.constantFrom(" ", " ", " ", "  ", "\n", "\u00a0", "");
const text = fc
  .array(fc.tuple(word, separator), { minLength: 1, maxLength: 12 })
  .map((pieces) => pieces.flat().join(""));

describe.each(folders)("%s", (folder) => {
  test.each(["subword", "word", "released-word"] as const)(
    "%s: replaced words have the tokens of the complete text",
    async (tokenization: Tokenization) => {
      const tokenizer = await loadTokenizer(folder, tokenization);
      let composed = 0;
      fc.assert(
        fc.property(
          fc.array(text, { minLength: 1, maxLength: 2 }),
          fc.array(fc.tuple(fc.nat(), word), { maxLength: 4 }),
          fc.integer({ min: 4, max: 40 }),
          (texts, changes, maxLength) => {
            const base = EditedText.create(texts, findWordPlaces);
            const compose = tokenizer.createComposer!(base.texts, base.slots, maxLength, tokenization);
            if (!compose || base.length === 0) return;
            const version = changes.reduce((found, [at, shown]) => found.hideWord(at % base.length, shown), base);
            const { positions, words } = version.replacements;
            const found = compose(positions, words);
            if (!found) return;
            composed++;
            const { ids, tokenTypeIds, truncated } =
              tokenization === "subword"
                ? tokenizer.encode(version.texts, maxLength)
                : tokenizer.encodeWords(version.texts, maxLength);
            expect([[...found.ids], [...found.tokenTypeIds], found.truncated]).toEqual([
              [...ids],
              [...tokenTypeIds],
              truncated,
            ]);
          },
        ),
        { numRuns: 400 },
      );
      // Most texts can be composed. Otherwise the test would say nothing.
      expect(composed).toBeGreaterThan(100);
    },
  );
});

test("a word that would join its neighbors is not composed", async () => {
  const tokenizer = await loadTokenizer(folders[0]!);
  const texts = ["the film was good"];
  const places = findWordPlaces(texts);
  const compose = tokenizer.createComposer!(texts, places, 20, "subword")!;
  expect(compose([1], ["plot"])!.ids).toEqual(tokenizer.encode(["the plot was good"], 20).ids);
  // A combining mark belongs to the space before it, and Chinese characters are words of their own.
  for (const strange of ["\u0301film", "中", ""]) expect(compose([1], [strange])).toBeNull();
});
