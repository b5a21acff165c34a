import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng } from "../../src/base/rng.js";
import { splitWords } from "../../src/text/words.js";
import { chooseExtent } from "../extent.js";
import { strangeText } from "./strange-texts.js";

const shared = process.env.TEMPER_SHARED ?? join("..", "shared");

/** Typical words and punctuation in random order, and strange texts. */
const text = fc.oneof(
  fc.integer().map((seed) => strangeText(new Rng(seed))),
  fc
    .array(
      fc.constantFrom(
        "don't",
        "cannot",
        "it's",
        "The",
        "film",
        "vs.",
        "i.e.",
        "U.S.",
        "3.50",
        "...",
        "--",
        "-",
        " ",
        " ",
        " ",
        '"',
        "'",
        "(",
        ")",
        ".",
        ",",
        "!",
        "n't",
        "’s",
        "o'toole",
        ":)",
        "sh*t",
        "can",
        "not",
      ),
    )
    .map((parts) => parts.join("")),
);

describe("splitWords", () => {
  it.each([
    ["I don't think it's fair, they'd say.", "I do n't think it 's fair , they 'd say ."],
    ["We can't, won't and cannot.", "We ca n't , wo n't and can not ."],
    ["A stomach-wrenching excuse -- yes, really...", "A stomach - wrenching excuse -- yes , really ..."],
    ["“Well,” she’s said (twice!)", "“ Well , ” she ’s said ( twice ! )"],
    ["Peter O'Toole on T.V. in the U.S.", "Peter O'Toole on T.V . in the U.S ."],
    ["10/10, i.e. $3.50 at 9:30 in the 1980s; the 1st :)", "10/10 , i.e. $ 3.50 at 9:30 in the 1980s ; the 1st :)"],
    ["great movie.This is it!!", "great movie . This is it ! !"],
    ["", ""],
    [" \t\n ", ""],
  ])("%j", (given, expected) => {
    expect(splitWords(given).join(" ")).toBe(expected);
  });

  it("keeps every character except white space, in order", () => {
    fc.assert(
      fc.property(text, (given) => splitWords(given).join("") === given.replace(/\s+/gu, "")),
      { numRuns: chooseExtent(400, 2000) },
    );
  });

  it("splits ASCII text in the same way if it is next to another letter", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."aNnt's.-*09:/)( e") }), (given) => {
        expect(splitWords(`${given} é`)).toEqual([...splitWords(given), "é"]);
      }),
      { numRuns: chooseExtent(400, 2000) },
    );
  });

  it.for([
    ["imdb/test.jsonl", "imdb_test.lm.json", "text", 0.7, 0.99],
    ["snli_1.0/snli_1.0_test.jsonl", "snli_test.lm.json", "sentence2", 0.995, 0.999],
  ] as const)(
    "splits %s like the published language-model scores",
    ([file, scores, field, minTextRate, minWordRate], context) => {
      const path = join(shared, "data", file);
      if (!existsSync(path)) context.skip(`${path} does not exist; set TEMPER_SHARED to the folder of shared data`);
      const scored = Object.keys(JSON.parse(readFileSync(join(shared, "data/substitutions", scores), "utf8")));
      const byLetters = new Map(scored.map((words) => [words.replaceAll(" ", ""), words.split(" ")]));
      let [texts, equal, words, found] = [0, 0, 0, 0];
      for (const line of readFileSync(path, "utf8").trim().split("\n")) {
        const plain = (JSON.parse(line)[field] as string).toLowerCase().replace(/<br\s*\/?>/g, " ");
        const theirs = byLetters.get(plain.replace(/\s+/g, ""));
        if (theirs === undefined) continue;
        const ours = splitWords(plain);
        const published = locateWords(theirs);
        texts++;
        if (ours.join(" ") === theirs.join(" ")) equal++;
        words += ours.length;
        found += [...locateWords(ours)].filter((word) => published.has(word)).length;
      }
      expect(texts).toBeGreaterThan(900);
      expect(equal / texts).toBeGreaterThan(minTextRate);
      expect(found / words).toBeGreaterThan(minWordRate);
    },
  );
});

/** Combines each word with the offset of its first letter. */
function locateWords(words: readonly string[]): Set<string> {
  let end = 0;
  return new Set(
    words.map((word) => {
      end += word.length;
      return `${end - word.length} ${word}`;
    }),
  );
}
