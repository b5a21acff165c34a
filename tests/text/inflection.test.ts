import { describe, expect, test } from "vitest";
import { analyzeInflection, type Inflection, inflect } from "../../src/text/inflection.js";

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
