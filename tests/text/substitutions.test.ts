import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { UserError } from "../../src/errors.js";
import { filterInVocabSubstitutes } from "../../src/text/known-substitutes.js";
import { loadLmConstraint } from "../../src/text/language-model-swaps.js";
import { matchCase } from "../../src/text/letter-case.js";
import { buildAttackSpace, computeAttackSpaceSize } from "../../src/text/replacements.js";
import { isStopWord } from "../../src/text/stop-words.js";
import { loadSubstitutions, parseSubstitutionTable, type Substitutions } from "../../src/text/substitutions.js";
import { createTextTemplate } from "../../src/text/text-template.js";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { temporaryFolder } from "../temporary.js";

const shared = join(process.env.TEMPER_SHARED ?? join("..", "shared"), "data/substitutions");
const folder = temporaryFolder();

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

describe("letter case", () => {
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
  ])("of %s makes %s %s", (pattern, word, expected) => expect(matchCase(pattern, word)).toBe(expected));
});

describe("a table", () => {
  test("is looked up in lower case and answers in the word's case, never with the word itself", () => {
    const table = parseSubstitutionTable({ good: ["great", "good", "Good", "great", "fine"], us: ["US"], x: [] }, "t");
    expect(table.getSubstitutes("Good")).toEqual(["Great", "Fine"]);
    expect(table.getSubstitutes("GOOD")).toEqual(["GREAT", "FINE"]);
    expect(table.getSubstitutes("us")).toEqual([]);
    expect(table.getSubstitutes("unknown")).toEqual([]);
    expect(table.getSubstitutes("constructor")).toEqual([]);
  });

  test("has a hash of its content, whatever the order of its keys", () => {
    const hash = (data: unknown) => parseSubstitutionTable(data, "t").hash;
    expect(hash({ a: ["b"], c: ["d", "e"] })).toBe(hash({ c: ["d", "e"], a: ["b"] }));
    expect(hash({ a: ["b"], c: ["d", "e"] })).not.toBe(hash({ a: ["b"], c: ["e", "d"] }));
  });

  test("can be cut to the words that a model knows, with a hash of its own", async () => {
    const tokenizerOf = async (name: string, ...words: string[]) => {
      mkdirSync(join(folder, name));
      file(join(name, "vocab.txt"), ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ...words].join("\n"));
      return loadTokenizer(join(folder, name));
    };
    const tokenizer = await tokenizerOf("few", "good", "great", "fine");
    const table = parseSubstitutionTable({ good: ["great", "splendid", "fine"], x: ["splendid"] }, "t");
    const known = filterInVocabSubstitutes(table, tokenizer);
    expect(known.getSubstitutes("Good")).toEqual(["Great", "Fine"]);
    expect(known.getSubstitutes("x")).toEqual([]);
    const other = filterInVocabSubstitutes(table, await tokenizerOf("more", "good", "great", "fine", "splendid"));
    expect(other.getSubstitutes("good")).toEqual(table.getSubstitutes("good"));
    expect(new Set([table.hash, known.hash, other.hash]).size).toBe(3);
  });

  test.each<[string, unknown, string]>([
    ["a list", [], "expected an object of words"],
    ["null", null, "expected an object of words"],
    ["a key of two words", { "very good": ["great"] }, 'the key "very good" is no word'],
    ["an empty key", { "": [] }, 'the key "" is no word'],
    ["a key of punctuation", { "--": ["dash"] }, 'the key "--" is no word'],
    ["a substitute of two words", { good: ["very good"] }, '"good": "very good" is no word'],
    ["a substitute that is no text", { good: [1] }, '"good": expected a list of words, received [1]'],
    ["one word for a list", { good: "great" }, '"good": expected a list of words'],
    ["nine substitutes", { good: [..."abcdefghi"] }, '"good": expected at most 8 substitutes'],
    ["one word in two cases", { good: [], Good: [] }, '"good" is there twice'],
  ])("that is or has %s is refused, by its key", (_, data, message) => {
    expect(() => parseSubstitutionTable(data, "my.json")).toThrow(`my.json: ${message}`);
  });

  test("of any JSON is read or refused with a UserError", () => {
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

  test("comes from a JSON file; anything else is refused", async () => {
    expect((await loadSubstitutions(file("good.json", '{"good": ["great"]}'))).getSubstitutes("good")).toEqual([
      "great",
    ]);
    await expect(loadSubstitutions(file("broken.json", '{"good": ["great"}'))).rejects.toThrow("broken.json:1:18");
    await expect(loadSubstitutions(join(folder, "none.json"))).rejects.toThrow("there is no such file");
    await expect(loadSubstitutions("synonyms")).rejects.toThrow('expected "wordnet" or the path of a .json table');
  });

  test("of the counter-fitted neighbours is read whole", async (context) => {
    const path = join(shared, "counterfitted_neighbors.json");
    if (!existsSync(path)) context.skip(`${path} is not there: set TEMPER_SHARED to the folder of shared data`);
    const table = await loadSubstitutions(path);
    expect(table.getSubstitutes("Movie")).toEqual([
      "Film",
      "Filmmaking",
      "Films",
      "Movies",
      "Cinema",
      "Cinematographic",
      "Cinematic",
      "Cinematography",
    ]);
    expect(table.getSubstitutes("br")).toEqual([]);
  });
});

describe("slots", () => {
  const table = parseSubstitutionTable({ good: ["great", "fine"], dog: ["hound"] }, "t");

  test("start with the word itself and open only the open fields", () => {
    const { replacements: choices } = buildAttackSpace(["Good", "dog", "!", "good"], [0, 0, 0, 1], [1], table);
    expect(choices).toEqual([["Good"], ["dog"], ["!"], ["good", "great", "fine"]]);
    expect(buildAttackSpace(["Good"], [0], [0], table, { slots: 2 }).replacements).toEqual([["Good", "Great"]]);
  });

  test("are measured as open words, substitutes and combinations", () => {
    const { replacements: choices } = buildAttackSpace(["good", "dog", "!"], [0, 0, 0], [0], table);
    expect(computeAttackSpaceSize(choices)).toEqual({
      words: 3,
      modifiableWords: 2,
      substitutes: 1.5,
      log10Combinations: expect.closeTo(Math.log10(6), 12),
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
  test("are grammar, in any case", () => {
    for (const word of ["the", "The", "WITH", "n't", "n’t", "myself"]) expect(isStopWord(word)).toBe(true);
    for (const word of ["good", "film", "time", "."]) expect(isStopWord(word)).toBe(false);
  });
});

describe("a template", () => {
  test("gives back the text it was made of, whatever lies between the words", () => {
    const word = fc.stringMatching(/^[a-z]{1,4}$/);
    const gap = fc.stringMatching(/^[ .,!\n-]{1,3}$/);
    fc.assert(
      fc.property(fc.array(fc.tuple(gap, word), { minLength: 1 }), gap, fc.nat(), (parts, tail, cut) => {
        const text = parts.map(([before, middle]) => before + middle).join("") + tail;
        const words = parts.map(([, middle]) => middle).slice(0, 1 + (cut % parts.length));
        const template = createTextTemplate(
          [text],
          words,
          words.map(() => 0),
        );
        expect(template.render(words)).toEqual([text]);
      }),
    );
  });

  test("puts a word in its own place, even if it occurs before as a part of another", () => {
    const template = createTextTemplate(["This is it."], ["This", "is", "it", "."], [0, 0, 0, 0]);
    expect(template.render(["This", "was", "it", "."])).toEqual(["This was it."]);
  });
});

describe("language-model swaps", () => {
  let swaps: Awaited<ReturnType<typeof loadLmConstraint>>;
  beforeAll(async () => {
    swaps = await loadLmConstraint(
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

  test("are found by the text's letters, and placed by characters where words are cut otherwise", () => {
    const text = "I don't like the film-maker's  FILM.";
    const words = ["I", "don", "'", "t", "like", "the", "film", "-", "maker", "'", "s", "FILM", "."];
    const found = swaps.getAllowedSubstitutes(text, words)!;
    expect(found.map((list) => list.join())).toEqual([
      "",
      "",
      "",
      "",
      "love",
      "",
      "movie",
      "",
      "",
      "",
      "",
      "movie,picture",
      "",
    ]);
  });

  test("are found for a text that was cut off, and past left-over markup", () => {
    expect(
      swaps
        .getAllowedSubstitutes("I don't<br /><br />like the film-maker's film.", [
          "I",
          "don't",
          "<",
          "br",
          "/",
          ">",
          "like",
        ])
        ?.at(-1),
    ).toEqual(["love"]);
  });

  test("are unknown for another text", () => {
    expect(swaps.getAllowedSubstitutes("I don't like it.", ["I"])).toBeUndefined();
  });

  test("of a wrong shape are refused", async () => {
    await expect(loadLmConstraint(file("a.json", '{"a b": {"x": []}}'))).rejects.toThrow(UserError);
    await expect(loadLmConstraint(file("b.json", '{"a b": {"0": "c"}}'))).rejects.toThrow(UserError);
    await expect(loadLmConstraint(file("c.json", '{"a b": {"2": []}}'))).rejects.toThrow(
      "position 2 is past its 2 words",
    );
  });

  test("cover the SNLI hypotheses", async (context) => {
    const path = join(shared, "snli_test.lm.json");
    if (!existsSync(path)) context.skip(`${path} is not there: set TEMPER_SHARED to the folder of shared data`);
    const all = await loadLmConstraint(path);
    expect(all.size).toBe(9632);
    expect(all.getAllowedSubstitutes("The church is filled with song.", ["The", "church", "is"])).toEqual([
      [],
      ["cathedral", "parish", "chapel"],
      [],
    ]);
  });
});

describe("WordNet", () => {
  let wordnet: Substitutions;
  beforeAll(async () => {
    process.env.TEMPER_CACHE = join(folder, "cache");
    wordnet = await loadSubstitutions("wordnet");
  });
  afterAll(() => {
    delete process.env.TEMPER_CACHE;
  });

  test("gives synonyms of the same part of speech, most frequent sense first", () => {
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

  test("without a tag takes the reading that is most frequent", () => {
    expect(wordnet.getSubstitutes("saw")).toEqual(wordnet.getSubstitutes("saw", "verb"));
    expect(wordnet.getSubstitutes("movies")).toEqual(wordnet.getSubstitutes("movies", "noun"));
    expect(wordnet.getSubstitutes("the")).toEqual([]);
    expect(wordnet.getSubstitutes("qwxz")).toEqual([]);
  });

  test("always gives at most 8 plain words, and not the word", () => {
    for (const word of ["take", "run", "good", "line", "cut", "made", "greatest", "quickly"]) {
      const found = wordnet.getSubstitutes(word);
      expect(found.length).toBeLessThanOrEqual(8);
      expect(found).not.toContain(word);
      for (const other of found) expect(other).toMatch(/^[a-z]+$/);
    }
  });

  test("answers the same from its cache", async () => {
    const again = await loadSubstitutions("wordnet");
    for (const word of ["films", "took", "happiest"])
      expect(again.getSubstitutes(word)).toEqual(wordnet.getSubstitutes(word));
    expect(again.hash).toBe(wordnet.hash);
  });

  test("is asked with the part of speech that a word has in its text", () => {
    const text = ["They", "film", "the", "big", "play", "."];
    const { replacements: choices } = buildAttackSpace(
      text,
      text.map(() => 0),
      [0],
      wordnet,
    );
    expect(choices[1]).toEqual(["film", ...wordnet.getSubstitutes("film", "verb")]);
    expect(choices[4]).toEqual(["play", ...wordnet.getSubstitutes("play", "noun")]);
    expect(choices[2]).toEqual(["the"]);
  });
});
