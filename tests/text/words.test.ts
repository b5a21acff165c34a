import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { Rng } from "../../src/base/rng.js";
import { countWords, findWordPlaces, findWords, isOneWord } from "../../src/text/find-words.js";
import { analyzeInflection, type Inflection, inflect } from "../../src/text/inflection.js";
import { looksEnglish } from "../../src/text/looks-english.js";
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
        ...["don't", "cannot", "it's", "The", "film", "vs.", "i.e.", "U.S.", "3.50", "...", "--", "-", " "],
        ...[" ", " ", '"', "'", "(", ")", ".", ",", "!", "n't", "’s", "o'toole", ":)", "sh*t", "can", "not"],
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

const split = (text: string): string[] => findWords(text).map(({ start, end }) => text.slice(start, end));

test("words are those of TextAttack 0.3.11", () => {
  const table: Record<string, string[]> = {
    "U.S. 3.5% 10,000 AT&T a/b": ["U", "S", "3", "5", "10", "000", "AT", "T", "a", "b"],
    "me@x.com it's e-mail a_b **wow** ''quoted''": ["me@x", "com", "it's", "e-mail", "a_b", "wow", "quoted"],
    "I 've n't it 's -LRB-": ["I", "ve", "n't", "it", "s", "LRB"],
    "zero\u200bwidth don\u2019t": ["zero", "width", "don", "t"],
    "": [],
    "- ' * ...": [],
  };
  for (const [text, words] of Object.entries(table)) expect(split(text)).toEqual(words);
  const all = [
    ...Object.keys(table),
    "a -'- b",
    "it's caf\u00e9",
    "`",
    "x\u02d7y *",
    "a\nb\tc",
    "\u{1d400}b \u{1f600}c",
    "a\ud800b \udc00",
  ];
  for (const text of all) expect(countWords([text, "two words"])).toBe(findWordPlaces([text, "two words"]).length);
  expect([isOneWord("it's"), isOneWord("two words"), isOneWord("no."), isOneWord("")]).toEqual([
    true,
    false,
    false,
    false,
  ]);
});

// In quadratic time, this test would take an hour.
test("a run of a million marks is read in linear time, also between letters", () => {
  const marks = "-".repeat(1 << 20);
  expect(findWords(marks)).toEqual([]);
  expect(findWords(`a${marks}b`)).toEqual([{ start: 0, end: marks.length + 2 }]);
  expect(findWords(`${marks}'ab'${marks}`)).toEqual([{ start: marks.length + 1, end: marks.length + 3 }]);
});

describe("inflection", () => {
  test.each<[Inflection, string]>([
    [
      "plural",
      "film films|church churches|story stories|day days|box boxes|knife knives|child children|series series|hero heroes|photo photos|quiz quizzes|analysis analyses",
    ],
    ["third", "take takes|watch watches|try tries|go goes|do does|have has|play plays|fix fixes"],
    [
      "past",
      "walk walked|stop stopped|try tried|love loved|take took|visit visited|admit admitted|occur occurred|prefer preferred|offer offered|panic panicked|play played|quit quit|clean cleaned|fix fixed",
    ],
    ["participle", "take taken|begin begun|stop stopped|make made|show shown"],
    [
      "gerund",
      "make making|run running|die dying|see seeing|argue arguing|be being|begin beginning|open opening|panic panicking|dye dyeing|fix fixing|show showing",
    ],
    [
      "comparative",
      "big bigger|happy happier|large larger|good better|grey greyer|new newer|bad worse|thin thinner|clean cleaner",
    ],
    ["superlative", "big biggest|happy happiest|large largest|good best|sad saddest"],
  ])("inflect returns the %s", (form, pairs) => {
    for (const pair of pairs.split("|")) {
      const [base, expected] = pair.split(" ") as [string, string];
      expect(inflect(base, form), base).toBe(expected);
    }
  });

  test("inflect returns undefined for the comparative of a long adjective", () => {
    for (const word of ["beautiful", "splendid", "enormous"]) expect(inflect(word, "comparative")).toBeUndefined();
  });

  test.each([
    ["films", "noun", "film", "plural"],
    ["children", "noun", "child", "plural"],
    ["film", "noun", "film", "base"],
    ["took", "verb", "take", "past"],
    ["taken", "verb", "take", "participle"],
    ["stopped", "verb", "stop", "past"],
    ["making", "verb", "make", "gerund"],
    ["goes", "verb", "go", "third"],
    ["better", "adjective", "good", "comparative"],
    ["happiest", "adjective", "happy", "superlative"],
    ["quickly", "adverb", "quickly", "base"],
  ] as const)("analyzeInflection of %s (%s) returns %s, %s", (word, part, lemma, form) =>
    expect(analyzeInflection(word, part)).toEqual({ lemma, form }),
  );
});

const repeat = (text: string): string[] => new Array<string>(20).fill(text);

describe("looksEnglish", () => {
  it("accepts English texts, also lower-case ones without punctuation", () => {
    expect(looksEnglish(repeat("The film is a quiet triumph, and it does not try to be more than that."))).toBe(true);
    expect(looksEnglish(repeat("one of the most engaging films that this director has made in years"))).toBe(true);
  });

  it.each([
    "Der Film ist ein stiller Triumph, und er will nicht mehr sein als das, was er zeigt.",
    "Le film est un triomphe discret, et il ne cherche pas à être autre chose que ce qu'il montre.",
    "La película es un triunfo tranquilo y no intenta ser nada más de lo que muestra en pantalla.",
    "这部电影是一个安静的胜利 它 没有 试图 成为 更多",
  ])("rejects %s", (text) => {
    expect(looksEnglish(repeat(text))).toBe(false);
  });

  it("does not judge a few words", () => {
    expect(looksEnglish(["Der Film ist gut"])).toBe(true);
  });
});
