import { describe, expect, test } from "vitest";
import { createAttackExample, createInputBuilder } from "../../src/attacks/attack-space.js";
import {
  applyConstraints,
  constraintsSchema,
  getMaxChangedWords,
  keepLanguageModelSubstitutes,
} from "../../src/attacks/constraints.js";
import type { LmConstraint } from "../../src/text/lm-constraint.js";
import { parseSubstitutionTable } from "../../src/text/substitutions.js";

const table = parseSubstitutionTable(
  { dog: ["hound", "canine"], runs: ["dashes", "the"], the: ["thee"], fast: ["quickly", "quick"] },
  "table",
);
const encode = (texts: readonly string[]) => {
  const lists = texts.map((text) => text.match(/\w+|[^\w\s]/g) ?? []);
  return { words: lists.flat(), fields: lists.flatMap((list, field) => list.map(() => field)) };
};
const unconstrained = constraintsSchema.parse({});

describe("constraints", () => {
  const replacements = [
    ["The", "Thee"],
    ["dog", "hound"],
    ["runs", "dashes", "the"],
  ];

  test("protectStopWords neither changes nor inserts stop words", () => {
    expect(applyConstraints(replacements, { ...unconstrained, protectStopWords: true })).toEqual([
      ["The"],
      ["dog", "hound"],
      ["runs", "dashes"],
    ]);
  });

  test("matchPartOfSpeech keeps substitutes with the same part of speech", () => {
    const text = [["The"], ["big", "large", "quickly"], ["dog", "hound", "ran"], ["slept"], ["."]];
    expect(applyConstraints(text, { ...unconstrained, matchPartOfSpeech: true })).toEqual([
      ["The"],
      ["big", "large"],
      ["dog", "hound"],
      ["slept"],
      ["."],
    ]);
  });

  test("maxModificationRate limits the number of changed words", () => {
    expect(getMaxChangedWords(20, { ...unconstrained, maxModificationRate: 0.25 })).toBe(5);
    expect(getMaxChangedWords(3, { ...unconstrained, maxModificationRate: 0.3 })).toBe(0);
    expect(getMaxChangedWords(7, unconstrained)).toBe(7);
    expect(constraintsSchema.safeParse({ maxModificationRate: 0 }).success).toBe(false);
  });

  test("keepLanguageModelSubstitutes ignores letter case", () => {
    expect(keepLanguageModelSubstitutes(replacements, [["thee"], [], ["dashes"]])).toEqual([
      ["The", "Thee"],
      ["dog"],
      ["runs", "dashes"],
    ]);
  });
});

describe("createAttackExample", () => {
  const example = { id: "1", label: 0, texts: ["The dog sleeps.", "A dog  runs (fast)!"] };

  test("adds substitutes only in modifiable fields", () => {
    const attackExample = createAttackExample(example, {
      modifiableFields: [1],
      substitutions: table,
      constraints: unconstrained,
      encode,
    });
    expect(attackExample.replacements.filter((words) => words.length > 1)).toEqual([
      ["dog", "hound", "canine"],
      ["runs", "dashes", "the"],
      ["fast", "quickly", "quick"],
    ]);
  });

  test("inputs keep the original spacing and show a masked word as the unknown token", () => {
    const attackExample = createAttackExample(example, {
      modifiableFields: [0, 1],
      substitutions: table,
      constraints: unconstrained,
      encode,
    });
    const replacementIndices = new Int16Array(attackExample.words.length);
    replacementIndices[5] = 1;
    const input = createInputBuilder(attackExample)({ replacementIndices, mask: 8 });
    expect(input.texts("[UNK]")).toEqual(["The dog sleeps.", "A hound  runs ([UNK])!"]);
    expect(input.words).toEqual(["The", "dog", "sleeps", ".", "A", "hound", "runs", "(", "fast", ")", "!"]);
  });

  test("maskWord is written into the text, and without it the unknown token", () => {
    const attackExample = createAttackExample(example, {
      ...{ modifiableFields: [1], substitutions: table, constraints: unconstrained, encode },
    });
    const build = createInputBuilder(attackExample);
    const replacementIndices = new Int16Array(attackExample.words.length);
    const mask = attackExample.words.lastIndexOf("dog");
    expect(build({ replacementIndices, mask }).texts("[UNK]")[1]).toBe("A [UNK]  runs (fast)!");
    const written = build({ replacementIndices, mask, maskWord: "NULL" });
    expect(written.texts("[UNK]")[1]).toBe("A NULL  runs (fast)!");
    expect([written.mask, written.words[mask]]).toEqual([undefined, "NULL"]);
  });

  test("keeps only what a language-model constraint allows, and accepts no text without an entry", () => {
    const known: LmConstraint = {
      name: "lm",
      hash: "h",
      size: 1,
      covers: (text) => text === example.texts[1],
      getAllowedSubstitutes: (text, words) =>
        text === example.texts[1] ? words.map((word) => (word === "dog" ? ["canine"] : [])) : undefined,
    };
    const options = {
      modifiableFields: [1],
      substitutions: table,
      constraints: unconstrained,
      encode,
      languageModel: known,
    };
    const covered = createAttackExample(example, options);
    expect(covered.replacements.filter((words) => words.length > 1)).toEqual([["dog", "canine"]]);
    const other = { ...example, texts: ["The dog sleeps.", "Dogs run fast."] };
    expect(() => createAttackExample(other, options)).toThrow("lm does not cover");
  });
});
