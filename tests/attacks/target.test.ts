import { describe, expect, test } from "vitest";
import { createAttackExample, createInputBuilder } from "../../src/attacks/attack-space.js";
import {
  applyConstraints,
  constraintsSchema,
  getMaxChangedWords,
  keepLanguageModelSubstitutes,
} from "../../src/attacks/constraints.js";
import type { LmConstraint } from "../../src/text/language-model-swaps.js";
import { parseSubstitutionTable } from "../../src/text/substitutions.js";

const table = parseSubstitutionTable(
  { dog: ["hound", "canine"], runs: ["dashes", "the"], the: ["thee"], fast: ["quickly", "quick"] },
  "table",
);
const encode = (texts: readonly string[]) => {
  const lists = texts.map((text) => text.match(/\w+|[^\w\s]/g) ?? []);
  return { words: lists.flat(), fields: lists.flatMap((list, field) => list.map(() => field)) };
};
const free = constraintsSchema.parse({});

describe("constraints", () => {
  const choices = [
    ["The", "Thee"],
    ["dog", "hound"],
    ["runs", "dashes", "the"],
  ];

  test("keep stop words, and put none in", () => {
    expect(applyConstraints(choices, { ...free, protectStopWords: true })).toEqual([
      ["The"],
      ["dog", "hound"],
      ["runs", "dashes"],
    ]);
  });

  test("keep the part of speech", () => {
    const text = [["The"], ["big", "large", "quickly"], ["dog", "hound", "ran"], ["slept"], ["."]];
    expect(applyConstraints(text, { ...free, matchPartOfSpeech: true })).toEqual([
      ["The"],
      ["big", "large"],
      ["dog", "hound"],
      ["slept"],
      ["."],
    ]);
  });

  test("bound the share of words", () => {
    expect(getMaxChangedWords(20, { ...free, maxModificationRate: 0.25 })).toBe(5);
    expect(getMaxChangedWords(3, { ...free, maxModificationRate: 0.3 })).toBe(0);
    expect(getMaxChangedWords(7, free)).toBe(7);
    expect(constraintsSchema.safeParse({ maxModificationRate: 0 }).success).toBe(false);
  });

  test("keep what a language model allows, in any case", () => {
    expect(keepLanguageModelSubstitutes(choices, [["thee"], [], ["dashes"]])).toEqual([
      ["The", "Thee"],
      ["dog"],
      ["runs", "dashes"],
    ]);
  });
});

describe("a target", () => {
  const example = { id: "1", label: 0, texts: ["The dog sleeps.", "A dog  runs (fast)!"] };

  test("opens only the open fields", () => {
    const target = createAttackExample(example, {
      modifiableFields: [1],
      substitutions: table,
      constraints: free,
      encode,
    });
    const open = target.replacements.filter((slots) => slots.length > 1);
    expect(open).toEqual([
      ["dog", "hound", "canine"],
      ["runs", "dashes", "the"],
      ["fast", "quickly", "quick"],
    ]);
  });

  test("is written back in its own spacing, a masked word as the unknown token", () => {
    const target = createAttackExample(example, {
      modifiableFields: [0, 1],
      substitutions: table,
      constraints: free,
      encode,
    });
    const picks = new Int16Array(target.words.length);
    picks[5] = 1;
    const input = createInputBuilder(target)({ replacementIndices: picks, mask: 8 });
    expect(input.texts("[UNK]")).toEqual(["The dog sleeps.", "A hound  runs ([UNK])!"]);
    expect(input.words).toEqual(["The", "dog", "sleeps", ".", "A", "hound", "runs", "(", "fast", ")", "!"]);
  });

  test("runs without a language model that does not know its text, and says so", () => {
    const known: LmConstraint = {
      name: "swaps",
      hash: "h",
      size: 1,
      getAllowedSubstitutes: (text, words) =>
        text === example.texts[1] ? words.map((word) => (word === "dog" ? ["canine"] : [])) : undefined,
    };
    const options = { modifiableFields: [1], substitutions: table, constraints: free, encode, languageModel: known };
    const covered = createAttackExample(example, options);
    expect(covered.withoutLanguageModel).toBe(false);
    expect(covered.replacements.filter((slots) => slots.length > 1)).toEqual([["dog", "canine"]]);
    const other = createAttackExample({ ...example, texts: ["The dog sleeps.", "Dogs run fast."] }, options);
    expect(other.withoutLanguageModel).toBe(true);
    expect(other.replacements.filter((slots) => slots.length > 1)).toEqual([["fast", "quickly", "quick"]]);
  });
});
