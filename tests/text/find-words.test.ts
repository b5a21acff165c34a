import { expect, test } from "vitest";
import { countWords, findWordPlaces, findWords, isOneWord } from "../../src/text/find-words.js";

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
  const all = [...Object.keys(table), "a -'- b", "it's caf\u00e9", "`", "x\u02d7y *", "a\nb\tc"];
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
