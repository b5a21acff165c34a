import { describe, expect, test } from "vitest";
import { constrain, constraintOptions, keepSwaps, mostChanged } from "../../src/attacks/constraints.js";
import { inputsOf, targetOf } from "../../src/attacks/target.js";
import type { LanguageModelSwaps } from "../../src/text/language-model-swaps.js";
import { substitutionTable } from "../../src/text/substitutions.js";

const table = substitutionTable({ dog: ["hound", "canine"], runs: ["dashes", "the"], the: ["thee"], fast: ["quickly", "quick"] }, "table");
const encode = (texts: readonly string[]) => {
  const lists = texts.map((text) => text.match(/\w+|[^\w\s]/g) ?? []);
  return { words: lists.flat(), fields: lists.flatMap((list, field) => list.map(() => field)) };
};
const free = constraintOptions.parse({});

describe("constraints", () => {
  const choices = [
    ["The", "Thee"],
    ["dog", "hound"],
    ["runs", "dashes", "the"],
  ];

  test("keep stop words, and put none in", () => {
    expect(constrain(choices, { ...free, keepStopWords: true })).toEqual([["The"], ["dog", "hound"], ["runs", "dashes"]]);
  });

  test("keep the part of speech", () => {
    const text = [["The"], ["big", "large", "quickly"], ["dog", "hound", "ran"], ["slept"], ["."]];
    expect(constrain(text, { ...free, keepPartOfSpeech: true })).toEqual([["The"], ["big", "large"], ["dog", "hound"], ["slept"], ["."]]);
  });

  test("bound the share of words", () => {
    expect(mostChanged(20, { ...free, largestShare: 0.25 })).toBe(5);
    expect(mostChanged(3, { ...free, largestShare: 0.3 })).toBe(0);
    expect(mostChanged(7, free)).toBe(7);
    expect(constraintOptions.safeParse({ largestShare: 0 }).success).toBe(false);
  });

  test("keep what a language model allows, in any case", () => {
    expect(keepSwaps(choices, [["thee"], [], ["dashes"]])).toEqual([["The", "Thee"], ["dog"], ["runs", "dashes"]]);
  });
});

describe("a target", () => {
  const example = { id: "1", label: 0, texts: ["The dog sleeps.", "A dog  runs (fast)!"] };

  test("opens only the open fields", () => {
    const target = targetOf(example, { openFields: [1], substitutions: table, constraints: free, encode });
    const open = target.choices.filter((slots) => slots.length > 1);
    expect(open).toEqual([
      ["dog", "hound", "canine"],
      ["runs", "dashes", "the"],
      ["fast", "quickly", "quick"],
    ]);
  });

  test("is written back in its own spacing, a masked word as the unknown token", () => {
    const target = targetOf(example, { openFields: [0, 1], substitutions: table, constraints: free, encode });
    const picks = new Int16Array(target.words.length);
    picks[5] = 1;
    const input = inputsOf(target)({ picks, mask: 8 });
    expect(input.texts("[UNK]")).toEqual(["The dog sleeps.", "A hound  runs ([UNK])!"]);
    expect(input.words).toEqual(["The", "dog", "sleeps", ".", "A", "hound", "runs", "(", "fast", ")", "!"]);
  });

  test("runs without a language model that does not know its text, and says so", () => {
    const known: LanguageModelSwaps = {
      name: "swaps",
      hash: "h",
      size: 1,
      of: (text, words) => (text === example.texts[1] ? words.map((word) => (word === "dog" ? ["canine"] : [])) : undefined),
    };
    const options = { openFields: [1], substitutions: table, constraints: free, encode, languageModel: known };
    const covered = targetOf(example, options);
    expect(covered.withoutLanguageModel).toBe(false);
    expect(covered.choices.filter((slots) => slots.length > 1)).toEqual([["dog", "canine"]]);
    const other = targetOf({ ...example, texts: ["The dog sleeps.", "Dogs run fast."] }, options);
    expect(other.withoutLanguageModel).toBe(true);
    expect(other.choices.filter((slots) => slots.length > 1)).toEqual([["fast", "quickly", "quick"]]);
  });
});
