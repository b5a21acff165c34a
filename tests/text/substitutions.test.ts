import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { UserError } from "../../src/base/errors.js";
import { locateWords } from "../../src/text/find-words.js";
import { loadLmConstraint } from "../../src/text/lm-constraint.js";
import { loadSubstitutions } from "../../src/text/load-substitutions.js";
import { buildAttackSpace, computeAttackSpaceSize } from "../../src/text/replacements.js";
import {
  filterInVocabSubstitutes,
  matchCase,
  matchCaseSensitively,
  parseSubstitutionTable,
  type Substitutions,
} from "../../src/text/substitutions.js";
import { splitIntoPieces } from "../../src/text/text-pieces.js";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { isStopWord } from "../../src/text/words.js";
import { float64, matchClose } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";

const shared = join(process.env.TEMPER_SHARED ?? join("..", "shared"), "data/substitutions");
const folder = temporaryFolder();

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const locate = (text: string, words: readonly string[]) =>
  locateWords(
    [text],
    words,
    words.map(() => 0),
  );

describe("matchCase", () => {
  test.each([
    ["Good", "great", "Great"],
    ["GOOD", "great", "GREAT"],
    ["good", "great", "great"],
    ["A", "an", "An"],
    ["iPhone", "mobile", "mobile"],
    ["McCoy", "man", "man"],
    ["Élan", "être", "Être"],
    ["DON'T", "no", "NO"],
    ["2ND", "third", "THIRD"],
  ])("of %s changes %s to %s", (pattern, word, expected) => expect(matchCase(pattern, word)).toBe(expected));
});

test("matchCaseSensitively leaves words with a capital letter unchanged, as RIFT's training code and PWWS do", () => {
  const table = parseSubstitutionTable({ good: ["great"] }, "t");
  const sensitive = matchCaseSensitively(table);
  expect(["good", "Good", "GOOD"].map((word) => table.getSubstitutes(word))).toEqual([["great"], ["Great"], ["GREAT"]]);
  expect(["good", "Good", "GOOD"].map((word) => sensitive.getSubstitutes(word))).toEqual([["great"], [], []]);
  expect(sensitive.hash).not.toBe(table.hash);
});

describe("parseSubstitutionTable", () => {
  test("ignores the case of the word, keeps it in the substitutes, and excludes the word itself", () => {
    const table = parseSubstitutionTable({ good: ["great", "good", "Good", "great", "fine"], us: ["US"], x: [] }, "t");
    expect(table.getSubstitutes("Good")).toEqual(["Great", "Fine"]);
    expect(table.getSubstitutes("GOOD")).toEqual(["GREAT", "FINE"]);
    expect(table.getSubstitutes("us")).toEqual([]);
    expect(table.getSubstitutes("unknown")).toEqual([]);
    expect(table.getSubstitutes("constructor")).toEqual([]);
  });

  test("the hash depends on the content, not on the order of the keys", () => {
    const hash = (data: unknown) => parseSubstitutionTable(data, "t").hash;
    expect(hash({ a: ["b"], c: ["d", "e"] })).toBe(hash({ c: ["d", "e"], a: ["b"] }));
    expect(hash({ a: ["b"], c: ["d", "e"] })).not.toBe(hash({ a: ["b"], c: ["e", "d"] }));
  });

  test("filterInVocabSubstitutes removes unknown words and changes the hash", async () => {
    const createTokenizer = async (name: string, ...words: string[]) => {
      mkdirSync(join(folder, name));
      file(join(name, "vocab.txt"), ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ...words].join("\n"));
      return loadTokenizer(join(folder, name));
    };
    const tokenizer = await createTokenizer("few", "good", "great", "fine");
    const table = parseSubstitutionTable({ good: ["great", "splendid", "fine"], x: ["splendid"] }, "t");
    const known = filterInVocabSubstitutes(table, tokenizer);
    expect(known.getSubstitutes("Good")).toEqual(["Great", "Fine"]);
    expect(known.getSubstitutes("x")).toEqual([]);
    const other = filterInVocabSubstitutes(table, await createTokenizer("more", "good", "great", "fine", "splendid"));
    expect(other.getSubstitutes("good")).toEqual(table.getSubstitutes("good"));
    expect(new Set([table.hash, known.hash, other.hash]).size).toBe(3);
  });

  test.each<[string, unknown, string]>([
    ["a list", [], "expected an object that maps words to lists of words"],
    ["null", null, "expected an object that maps words to lists of words"],
    ["a key of two words", { "very good": ["great"] }, 'the key "very good" is not a word'],
    ["an empty key", { "": [] }, 'the key "" is not a word'],
    ["a key of punctuation", { "--": ["dash"] }, 'the key "--" is not a word'],
    ["a substitute of two words", { good: ["very good"] }, '"good": "very good" is not a word'],
    ["a substitute that is not a string", { good: [1] }, '"good": expected a list of words, received [1]'],
    ["a word instead of a list", { good: "great" }, '"good": expected a list of words'],
    ["nine substitutes", { good: [..."abcdefghi"] }, '"good": expected at most 8 substitutes'],
    ["one word in two cases", { good: [], Good: [] }, '"good" occurs twice'],
  ])("rejects %s and names the key", (_, data, message) => {
    expect(() => parseSubstitutionTable(data, "my.json")).toThrow(`my.json: ${message}`);
  });

  test("accepts any JSON or throws a UserError", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (data) => {
        try {
          const table = parseSubstitutionTable(data, "t");
          for (const key of Object.keys(data as object)) expect(table.getSubstitutes(key)).not.toContain(key);
        } catch (error) {
          expect(error).toBeInstanceOf(UserError);
        }
      }),
    );
  });

  test("loadSubstitutions accepts only JSON files", async () => {
    expect((await loadSubstitutions(file("good.json", '{"good": ["great"]}'))).getSubstitutes("good")).toEqual([
      "great",
    ]);
    await expect(loadSubstitutions(file("broken.json", '{"good": ["great"}'))).rejects.toThrow("broken.json:1:18");
    await expect(loadSubstitutions(join(folder, "none.json"))).rejects.toThrow("there is no such file");
    await expect(loadSubstitutions("synonyms")).rejects.toThrow('expected "wordnet" or a JSON file');
  });

  test("reads the counter-fitted neighbors", async (context) => {
    const path = join(shared, "counterfitted_neighbors.json");
    if (!existsSync(path)) context.skip(`${path} does not exist; set TEMPER_SHARED to the folder of shared data`);
    const table = await loadSubstitutions(path);
    expect(table.getSubstitutes("Movie").join(" ")).toBe(
      "Film Filmmaking Films Movies Cinema Cinematographic Cinematic Cinematography",
    );
    expect(table.getSubstitutes("br")).toEqual([]);
  });
});

describe("attack space", () => {
  const table = parseSubstitutionTable({ good: ["great", "fine"], dog: ["hound"] }, "t");

  test("lists the word first and changes only modifiable fields", () => {
    const replacements = buildAttackSpace(["Good", "dog", "!", "good"], [0, 0, 0, 1], [1], table);
    expect(replacements).toEqual([["Good"], ["dog"], ["!"], ["good", "great", "fine"]]);
    expect(buildAttackSpace(["Good"], [0], [0], table, 2)).toEqual([["Good", "Great"]]);
  });

  test("computeAttackSpaceSize counts modifiable words, substitutes and combinations", () => {
    const replacements = buildAttackSpace(["good", "dog", "!"], [0, 0, 0], [0], table);
    expect(computeAttackSpaceSize(replacements)).toEqual({
      words: 3,
      modifiableWords: 2,
      substitutes: 1.5,
      log10Combinations: matchClose(Math.log10(6), float64),
    });
    expect(computeAttackSpaceSize([["a"]])).toEqual({
      words: 1,
      modifiableWords: 0,
      substitutes: 0,
      log10Combinations: 0,
    });
  });
});

describe("stop words", () => {
  test("are function words, in any letter case", () => {
    for (const word of ["the", "The", "WITH", "n't", "n’t", "myself"]) expect(isStopWord(word)).toBe(true);
    for (const word of ["good", "film", "time", "."]) expect(isStopWord(word)).toBe(false);
  });
});

describe("splitIntoPieces", () => {
  test("keeps every character, and finds words that also occur inside earlier ones", () => {
    const word = fc.stringMatching(/^[a-z]{1,4}$/);
    const gap = fc.stringMatching(/^[ .,!\n-]{1,3}$/);
    fc.assert(
      fc.property(fc.array(fc.tuple(gap, word), { minLength: 1 }), gap, fc.nat(), (parts, tail, cut) => {
        const text = parts.map(([before, middle]) => before + middle).join("") + tail;
        const words = parts.map(([, middle]) => middle).slice(0, 1 + (cut % parts.length));
        const [pieces] = splitIntoPieces([text], words, new Uint8Array(words.length));
        expect(pieces!.map((piece) => piece.text).join("")).toBe(text);
        expect(pieces!.filter((piece) => piece.word !== null).map((piece) => piece.text)).toEqual(words);
      }),
    );
    const [pieces] = splitIntoPieces(["This is it."], ["This", "is", "it", "."], [0, 0, 0, 0]);
    expect(pieces!.map((piece) => piece.text)).toEqual(["This", " ", "is", " ", "it", "."]);
  });
});

describe("loadLmConstraint", () => {
  let constraint: Awaited<ReturnType<typeof loadLmConstraint>>;
  beforeAll(async () => {
    constraint = await loadLmConstraint(
      file(
        "lm.json",
        JSON.stringify({
          "i do n't like the film - maker 's film .": {
            "3": ["love"],
            "5": ["movie"],
            "9": ["movie", "picture"],
            "10": [],
          },
        }),
      ),
    );
  });

  test("finds a text by its letters and aligns words that are split differently", () => {
    const text = "I don't like the film-maker's  FILM.";
    const words = ["I", "don", "'", "t", "like", "the", "film", "-", "maker", "'", "s", "FILM", "."];
    const found = constraint.getAllowedSubstitutes(text, locate(text, words))!;
    const listed = found.flatMap((list, i) => (list.length > 0 ? [[words[i], list]] : []));
    expect(listed).toEqual([
      ["like", ["love"]],
      ["film", ["movie"]],
      ["FILM", ["movie", "picture"]],
    ]);
  });

  test("handles truncated texts and markup", () => {
    const text = "I don't<br /><br />like the film-maker's film.";
    const words = locate(text, ["I", "don't", "<", "br", "/", ">", "like"]);
    expect(constraint.getAllowedSubstitutes(text, words)?.at(-1)).toEqual(["love"]);
    // Words without punctuation are found by their places.
    expect(constraint.getAllowedSubstitutes(text, locate(text, ["film-maker's", "film"]))).toEqual([
      [],
      ["movie", "picture"],
    ]);
  });

  test("returns undefined for another text", () => {
    expect(constraint.getAllowedSubstitutes("I don't like it.", [{ start: 0, end: 1 }])).toBeUndefined();
  });

  test("rejects files of a wrong format", async () => {
    await expect(loadLmConstraint(file("a.json", '{"a b": {"x": []}}'))).rejects.toThrow(UserError);
    await expect(loadLmConstraint(file("b.json", '{"a b": {"0": "c"}}'))).rejects.toThrow(UserError);
    await expect(loadLmConstraint(file("c.json", '{"a b": {"2": []}}'))).rejects.toThrow(
      "position 2 is out of range; the text has 2 words",
    );
  });

  test("covers the SNLI hypotheses", async (context) => {
    const path = join(shared, "snli_test.lm.json");
    if (!existsSync(path)) context.skip(`${path} does not exist; set TEMPER_SHARED to the folder of shared data`);
    const all = await loadLmConstraint(path);
    expect(all.size).toBe(9632);
    const text = "The church is filled with song.";
    expect(all.getAllowedSubstitutes(text, locate(text, ["The", "church", "is"]))).toEqual([
      [],
      ["cathedral", "parish", "chapel"],
      [],
    ]);
  });
});

describe("WordNet", () => {
  let wordnet: Substitutions;
  beforeAll(async () => {
    vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
    wordnet = await loadSubstitutions("wordnet");
  });
  afterAll(() => void vi.unstubAllEnvs());

  test("returns synonyms of the same part of speech, most frequent sense first", () => {
    expect(wordnet.getSubstitutes("film", "noun")).toEqual(["movie", "picture", "pic", "flick", "cinema", "celluloid"]);
    expect(wordnet.getSubstitutes("film", "verb")).toEqual(["shoot", "take"]);
    expect(wordnet.getSubstitutes("film", "other")).toEqual([]);
  });

  test("keeps case and inflection", () => {
    expect(wordnet.getSubstitutes("Films", "noun").slice(0, 2)).toEqual(["Movies", "Pictures"]);
    expect(wordnet.getSubstitutes("FILMS", "noun").slice(0, 2)).toEqual(["MOVIES", "PICTURES"]);
    expect(wordnet.getSubstitutes("bigger", "adjective")).toContain("larger");
    expect(wordnet.getSubstitutes("stopped", "verb")).toEqual(expect.arrayContaining(["halted", "ceased", "quit"]));
    expect(wordnet.getSubstitutes("begins", "verb")).toEqual(expect.arrayContaining(["starts", "commences"]));
    expect(wordnet.getSubstitutes("beginning", "verb")).toEqual(expect.arrayContaining(["starting", "commencing"]));
    expect(wordnet.getSubstitutes("children", "noun")).toEqual(expect.arrayContaining(["kids", "youngsters"]));
  });

  test("uses the most frequent part of speech if there is no tag", () => {
    expect(wordnet.getSubstitutes("saw")).toEqual(wordnet.getSubstitutes("saw", "verb"));
    expect(wordnet.getSubstitutes("movies")).toEqual(wordnet.getSubstitutes("movies", "noun"));
    expect(wordnet.getSubstitutes("the")).toEqual([]);
    expect(wordnet.getSubstitutes("qwxz")).toEqual([]);
  });

  test("returns at most 8 plain words, without the word itself", () => {
    for (const word of ["take", "run", "good", "line", "cut", "made", "greatest", "quickly"]) {
      const found = wordnet.getSubstitutes(word);
      expect(found.length).toBeLessThanOrEqual(8);
      expect(found).not.toContain(word);
      for (const other of found) expect(other).toMatch(/^[a-z]+$/);
    }
  });

  test("returns the same synonyms from the cache", async () => {
    const again = await loadSubstitutions("wordnet");
    for (const word of ["films", "took", "happiest"])
      expect(again.getSubstitutes(word)).toEqual(wordnet.getSubstitutes(word));
    expect(again.hash).toBe(wordnet.hash);
  });

  test("buildAttackSpace uses the part of speech of each word in its text", () => {
    const text = ["They", "film", "the", "big", "play", "."];
    const replacements = buildAttackSpace(text, new Uint8Array(text.length), [0], wordnet);
    expect(replacements[1]).toEqual(["film", ...wordnet.getSubstitutes("film", "verb")]);
    expect(replacements[4]).toEqual(["play", ...wordnet.getSubstitutes("play", "noun")]);
    expect(replacements[2]).toEqual(["the"]);
  });
});
