import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Example } from "../../src/tasks/example.js";
import { countOverlap, drawExamples, drawRandomly, sampleExamples } from "../../src/tasks/sample.js";
import { computeDedupKey, splitExamples } from "../../src/tasks/split-examples.js";

/** Few distinct words, so that duplicates (also up to case and punctuation) are common. */
const manyExamples = fc
  .array(
    fc.record({
      text: fc.array(fc.constantFrom("good", "Good", "bad", "film", "the", "."), { minLength: 1, maxLength: 4 }),
      label: fc.nat(2),
    }),
    { maxLength: 120 },
  )
  .map((items) =>
    items.map(({ text, label }, index): Example => ({ id: String(index), texts: [text.join(" ")], label })),
  );

const distinct = (count: number, classes: number): Example[] =>
  Array.from({ length: count }, (_, index) => ({
    id: String(index),
    texts: [`text number ${index}`],
    label: index % classes,
  }));

const ids = (examples: readonly Example[]) => examples.map((example) => Number(example.id));

describe("splitExamples", () => {
  it("assigns every example to one part, in order, and keeps duplicates together", () => {
    fc.assert(
      fc.property(manyExamples, (examples) => {
        const { test, validation, rest } = splitExamples(examples, {
          test: { fraction: 0.2 },
          validation: { fraction: 0.1 },
        });
        expect(ids([...test, ...validation, ...rest]).sort((a, b) => a - b)).toEqual(ids(examples));
        const homes = new Map<string, Set<number>>();
        for (const [index, part] of [test, validation, rest].entries()) {
          expect(ids(part)).toEqual(ids(part).sort((a, b) => a - b));
          for (const { texts } of part)
            homes.set(computeDedupKey(texts), (homes.get(computeDedupKey(texts)) ?? new Set()).add(index));
        }
        for (const home of homes.values()) expect(home.size).toBe(1);
      }),
    );
  });

  it("does not depend on the order of the file if there are no duplicates", () => {
    fc.assert(
      fc.property(fc.shuffledSubarray(distinct(60, 3), { minLength: 60 }), (shuffled) => {
        const parts = { validation: { fraction: 0.1 } };
        const inOrder = ids(splitExamples(distinct(60, 3), parts).validation);
        expect(ids(splitExamples(shuffled, parts).validation).sort((a, b) => a - b)).toEqual(inOrder);
      }),
    );
  });

  it("keeps the class distribution and respects the maximum size", () => {
    const examples = distinct(3000, 4).map((example) => ({ ...example, label: Math.min(example.label, 1) }));
    const { validation } = splitExamples(examples, { validation: { fraction: 0.1 } });
    expect(validation.filter((example) => example.label === 0)).toHaveLength(75);
    expect(validation.filter((example) => example.label === 1)).toHaveLength(225);
    expect(splitExamples(examples, { validation: { fraction: 0.1, maxExamples: 120 } }).validation).toHaveLength(120);
  });

  it("keeps examples with the same custom key together", () => {
    const examples = distinct(400, 2);
    const { validation } = splitExamples(examples, { validation: { fraction: 0.2 } }, (example) =>
      String(Math.floor(Number(example.id) / 10)),
    );
    const tens = new Map<number, number>();
    for (const id of ids(validation)) tens.set(Math.floor(id / 10), (tens.get(Math.floor(id / 10)) ?? 0) + 1);
    expect([...tens.values()].every((count) => count === 10)).toBe(true);
  });
});

describe("drawExamples", () => {
  it("a smaller sample is the start of a larger one, and all examples are a permutation", () => {
    const examples = Array.from({ length: 30 }, (_, i) => ({ id: `${i}`, texts: [`text ${i}`], label: i % 3 }));
    const all = drawExamples(examples, 100, 5, 3);
    expect(new Set(all)).toEqual(new Set(examples));
    for (const n of [1, 7, 29, 30]) expect(drawExamples(examples, n, 5, 3)).toEqual(all.slice(0, n));
    expect(new Set(drawExamples(examples, 9, 5, 3))).toEqual(new Set(sampleExamples(examples, 9, 5, 3)));
  });
});

describe("sampleExamples", () => {
  it("returns n examples in file order, class-balanced; smaller samples are subsets", () => {
    fc.assert(
      fc.property(manyExamples, fc.nat(130), fc.integer(), (examples, n, seed) => {
        const chosen = sampleExamples(examples, n, seed, 3);
        expect(chosen).toHaveLength(Math.min(n, examples.length));
        expect(ids(chosen)).toEqual(ids(chosen).sort((a, b) => a - b));
        const had = [0, 1, 2].map((label) => examples.filter((example) => example.label === label).length);
        const got = [0, 1, 2].map((label) => chosen.filter((example) => example.label === label).length);
        const largest = Math.max(...got);
        for (const label of [0, 1, 2]) expect(got[label]! >= largest - 1 || got[label] === had[label]).toBe(true);
        const larger = new Set(ids(sampleExamples(examples, n + 7, seed, 3)));
        expect(ids(chosen).every((id) => larger.has(id))).toBe(true);
      }),
    );
  });

  it("depends only on the seed", () => {
    const examples = distinct(200, 2);
    expect(sampleExamples(examples, 20, 1, 2)).toEqual(sampleExamples(examples, 20, 1, 2));
    expect(sampleExamples(examples, 20, 1, 2)).not.toEqual(sampleExamples(examples, 20, 2, 2));
  });
});

describe("drawRandomly", () => {
  it("ignores the classes; a smaller sample is the start of a larger one", () => {
    const examples = distinct(400, 2).map((example, i) => ({ ...example, label: Number(i % 10 === 0) }));
    const chosen = drawRandomly(examples, 100, 3);
    const rare = chosen.filter(({ label }) => label === 1).length;
    expect(rare).toBeGreaterThan(2);
    expect(rare).toBeLessThan(25);
    expect(drawRandomly(examples, 40, 3)).toEqual(chosen.slice(0, 40));
    expect(drawRandomly(examples, 100, 3)).toEqual(chosen);
    expect(drawRandomly(examples, 100, 4)).not.toEqual(chosen);
    expect(new Set(drawRandomly(examples, 500, 3))).toEqual(new Set(examples));
  });
});

describe("countOverlap", () => {
  it("ignores case, punctuation, spacing and the order of a pair", () => {
    const make = (...texts: string[]): Example => ({ id: texts.join(), texts, label: 0 });
    const train = [make("It 's  Good ."), make("a", "b")];
    expect(countOverlap(train, [make("it's good"), make("it s good!"), make("b", "a"), make("c"), make("…")])).toBe(3);
  });
});

it("600 kB of combining accents have a key", () => {
  const key = computeDedupKey([`a${"\u0301\u0323".repeat(150_000)}`]);
  expect(key.length).toBeGreaterThan(1000);
  // Ordinary texts keep their keys.
  const text = "E\u0323\u0301tude ﬁn Ⅳ";
  expect(computeDedupKey([text])).toBe(text.normalize("NFKC").toLowerCase());
});
