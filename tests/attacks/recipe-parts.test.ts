import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { computeEditDistance, maxEditDistance } from "../../src/attacks/constraints/edit-distance.js";
import { samePartOfSpeech } from "../../src/attacks/constraints/part-of-speech.js";
import { protectedKinds, protectSpans } from "../../src/attacks/constraints/protected-spans.js";
import { computeAngular, minSentenceSimilarity } from "../../src/attacks/constraints/sentence-similarity.js";
import {
  keepStopWords,
  maxModificationRate,
  maxWordsChanged,
  minWordLength,
  noRepeat,
  onlyFields,
} from "../../src/attacks/constraints/words.js";
import { EditedText } from "../../src/attacks/edited-text.js";
import { createGoal, hardLabel, inputReduction, targeted, untargeted } from "../../src/attacks/goals.js";
import type { Constraint, Recipe, Search, Transformation } from "../../src/attacks/protocol.js";
import type { ResourceRequest } from "../../src/attacks/requests.js";
import { runRecipe } from "../../src/attacks/run-recipe.js";
import { guardSearch } from "../../src/attacks/searches/guard.js";
import { drawLevy } from "../../src/attacks/searches/particle-swarm.js";
import { addPadding, appendWords, insertWords } from "../../src/attacks/transformations/add-words.js";
import { changeCharacters, changeWord } from "../../src/attacks/transformations/change-characters.js";
import { changeNames } from "../../src/attacks/transformations/change-names.js";
import { changeNumbers } from "../../src/attacks/transformations/change-numbers.js";
import { contractions, contractWords, expandContractions } from "../../src/attacks/transformations/contractions.js";
import { deleteWord } from "../../src/attacks/transformations/delete-word.js";
import { listRewritings, rewriteText } from "../../src/attacks/transformations/rewrite-text.js";
import { swapNeighbors } from "../../src/attacks/transformations/swap-neighbors.js";
import { Rng } from "../../src/base/rng.js";
import type { Tokenizer } from "../../src/text/encoding.js";
import { nltkStopWords, textFoolerStopWords } from "../../src/text/stop-words.js";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { expectClose, float64 } from "../rounding.js";
import { allCandidates as all, innerCandidates as inner, searches, transformations } from "./parts.js";
import { answerQueries, hashed } from "./scripted.js";

const neighbors = {
  name: "letters",
  hash: "",
  usesPartOfSpeech: false,
  getSubstitutes: (word: string) => ["x", "y", "z"].map((end) => word + end),
};
const swaps = swapNeighbors(neighbors, 3);

/** Runs a recipe by hand. It records every scored text. */
function attackText(
  parts: Partial<Recipe> & { search: Search },
  texts: readonly string[],
  answer: (text: string) => readonly number[],
  budget?: number,
) {
  const recipe: Recipe = { goal: untargeted, transformations: [swaps], constraints: [noRepeat], ...parts };
  const attack = { name: "scripted", recipe };
  return answerQueries(runRecipe({ id: "0", label: 0 }, EditedText.create(texts), attack, new Rng(1), budget), answer);
}

const twoClasses = (gold: (text: string) => number) => (text: string) => [gold(text), 1 - gold(text)];

const findRewriting = (name: string) => listRewritings().find((each) => each.name === name)!;

describe("searches with scripted scores", () => {
  test("word importance ranking visits the words by importance and keeps only improvements", () => {
    const table: Record<string, number> = {
      ...{ "a b": 0.9, "_ b": 0.8, "a _": 0.6 },
      ...{ "a bx": 0.95, "a by": 0.85, "a bz": 0.7 },
      ...{ "ax bz": 0.72, "ay bz": 0.3, "az bz": 0.71 },
    };
    const { batches, result } = attackText(
      { search: searches.unk },
      ["a b"],
      twoClasses((text) => table[text]!),
    );
    expect(batches).toEqual([
      ["a b"],
      ["_ b", "a _"],
      ["a bx", "a by", "a bz"],
      ["ax bz", "ay bz", "az bz"],
      ["ay bz"],
    ]);
    expect(result).toMatchObject({ outcome: "success", queries: 9, finalWords: ["ay", "bz"] });
  });

  test("a deletion ranking scores texts without the word, which are never the result", () => {
    const gold = (text: string) => (text === "b" ? 0.1 : text === "a b" ? 0.9 : 0.95);
    const { batches, result } = attackText({ search: searches.delete }, ["a b"], twoClasses(gold));
    expect(batches.slice(0, 3)).toEqual([["a b"], ["b", "a"], ["ax b", "ay b", "az b"]]);
    expect(result).toMatchObject({ outcome: "failed", edits: [] });
  });

  test("insertions and deletions do not shift the words that are visited later", () => {
    const parts = { search: searches.random, transformations: [deleteWord] };
    const { result } = attackText(
      parts,
      ["aa bb cc dd"],
      twoClasses((text) => 0.9 - 0.01 * (12 - text.length)),
    );
    // Every word is deleted once, in some order, until one is left.
    expect(result.finalWords).toHaveLength(1);
    expect(result.edits.every(({ to }) => to === "")).toBe(true);
  });

  test("greedy and beam search take the best candidate of all words", () => {
    const gold = (text: string) => ({ "a b": 0.9, "az b": 0.6, "az by": 0.4 })[text] ?? 0.8;
    const { result } = attackText({ search: searches.greedy }, ["a b"], twoClasses(gold));
    expect(result).toMatchObject({ outcome: "success", finalWords: ["az", "by"] });
    // The second best text of the first step leads to the goal.
    const trap = (text: string) => ({ "a b": 0.9, "az b": 0.6, "a bx": 0.7, "ax bx": 0.4 })[text] ?? 0.8;
    expect(attackText({ search: searches.greedy }, ["a b"], twoClasses(trap)).result.outcome).toBe("failed");
    expect(attackText({ search: searches.beam }, ["a b"], twoClasses(trap)).result.finalWords).toEqual(["ax", "bx"]);
  });

  test("input reduction deletes words as long as the prediction stays", () => {
    const gold = (text: string) => (text.includes("good") ? 0.9 : 0.2);
    const parts = { search: searches.beam, goal: inputReduction, transformations: [deleteWord], constraints: [] };
    const { result } = attackText(parts, ["a good old film"], twoClasses(gold));
    expect(result).toMatchObject({ outcome: "failed", finalWords: ["good"], goal: "input-reduction" });
    expect(result.edits).toHaveLength(3);
  });

  test("guard tries rewriting, then words, then added words", () => {
    const transformations = [
      rewriteText(findRewriting("leetspeak")),
      changeCharacters("homoglyph", { candidates: "all", innerOnly: false }),
      appendWords(["thanks", "lunch"]),
    ];
    const parts = {
      search: guardSearch({ maxAddedWords: 3, maxQueries: 100 }),
      goal: targeted(1),
      transformations,
      constraints: [],
    };
    const spam = (text: string) => Math.max(0.1, 0.9 - 0.3 * (text.match(/lunch/g) ?? []).length);
    const { result, batches } = attackText(parts, ["buy now"], twoClasses(spam));
    expect(batches[1]).toEqual(["8uy n0w"]);
    expect(result).toMatchObject({
      outcome: "success",
      goal: "targeted-1",
      finalTexts: ["8uy n0w lunch lunch"],
    });
    const inserting = {
      ...{ ...parts, search: guardSearch({ maxAddedWords: 3, placement: "insert", maxQueries: 100 }) },
      transformations: [insertWords(["thanks", "lunch"])],
    };
    const { finalWords: final } = attackText(inserting, ["buy now"], twoClasses(spam)).result;
    expect([...final].sort()).toEqual(["buy", "lunch", "lunch", "now"]);
    expect(final.at(-1)).toBe("now");
    expect(
      attackText(
        parts,
        ["buy now"],
        twoClasses((text) => (text === "8uy n0w" ? 0.2 : 0.9)),
      ).result.finalTexts,
    ).toEqual(["8uy n0w"]);
  });

  test("examples of the target class are not attacked and stay correct", () => {
    const { result } = attackText({ search: searches.greedy, goal: targeted(0) }, ["a b"], () => [0.9, 0.1]);
    expect(result).toMatchObject({ outcome: "failed", queries: 1, isAttacked: false });
  });

  // The search for characters writes at every place of a text.
  const { characters: _, ...atWords } = searches;

  test.each(Object.entries<Search>(atWords))(
    "%s: budget, constraints and determinism for any scores",
    (name, search) => {
      const word = fc.stringMatching(/^[a-e]{1,4}$/);
      fc.assert(
        fc.property(
          fc.array(word, { maxLength: 7 }),
          fc.integer({ min: 1, max: 60 }),
          fc.nat(1000),
          (words, budget, salt) => {
            const parts = {
              search,
              transformations: [
                swaps,
                ...(name === "guard" ? [appendWords(["q"]), rewriteText(findRewriting("leetspeak"))] : []),
              ],
              constraints: [
                noRepeat,
                protectSpans([], [/e/g]),
                ...(name === "guard" || name.endsWith("evolution") ? [] : [maxWordsChanged({ count: 2 })]),
              ],
            };
            const answer = hashed(3, String(salt));
            const run = () => attackText(parts, [words.join(" ")], answer, budget);
            const { result } = run();
            expect(result.queries).toBeLessThanOrEqual(budget);
            expect(result).toEqual(run().result);
            expect(result.edits.every(({ from }) => !from.includes("e"))).toBe(true);
            if (name !== "guard" && name !== "evolution") expect(result.edits.length).toBeLessThanOrEqual(2);
            const predicted = result.after.indexOf(Math.max(...result.after));
            if (result.outcome === "success") expect(predicted).not.toBe(0);
            // The final score is that of the final text.
            const expected = answer(result.finalTexts.join("|"));
            expectClose(result.after, expected, { terms: 1, decimals: 6 });
          },
        ),
        // In the example, the only word that may change has changed.
        { numRuns: 40, examples: [[["abec", "ac"], 17, 824]] },
      );
    },
  );

  test("searches beat random changes: an additive score is found by every search", () => {
    // Each changed word lowers the score, so the goal is reached after three changes.
    const gold = (text: string) => 0.9 - 0.15 * (text.match(/[xyz]/g) ?? []).length;
    const blind = ["exhaustive", "random texts", "evolution", "characters", "guard"];
    for (const [name, search] of Object.entries(searches).filter(([name]) => !blind.includes(name))) {
      const { result } = attackText({ search }, ["aa bb cc dd"], twoClasses(gold));
      expect([name, result.outcome]).toEqual([name, "success"]);
    }
  });

  test("Lévy draws stay in their range", () => {
    const rng = new Rng(0);
    const draws = Array.from({ length: 500 }, () => drawLevy(-3, 3, rng));
    expect(Math.min(...draws)).toBeGreaterThanOrEqual(-3);
    expect(Math.max(...draws)).toBeLessThanOrEqual(3);
    expect(draws.filter((draw) => Math.abs(draw) < 1).length).toBeGreaterThan(250);
  });
});

describe("goals", () => {
  const text = EditedText.create(["a b c d"]);
  const score = (...probabilities: number[]) => ({ probabilities });
  test("values and success", () => {
    // The original text has 1 / (1 + exp(4)), a text in the middle 0.5, and the mirrored one the rest.
    const original = score(0.9, 0.1);
    const values = [original, score(0.5, 0.5), score(0.1, 0.9)].map((each) =>
      untargeted.computeValue(each, 0, text, original),
    );
    expectClose(values, [1 / (1 + Math.exp(4)), 0.5, 1 / (1 + Math.exp(-4))], float64);
    expect(targeted(1).computeValue(score(0.1, 0.9), 0, text, original)).toBe(values[2]!);
    expect([untargeted.isReached(score(0.5, 0.5), 0, text), untargeted.isReached(score(0.4, 0.6), 0, text)]).toEqual([
      false,
      true,
    ]);
    const target = targeted(2);
    expect(target.isReached(score(0.2, 0.5, 0.3), 0, text)).toBe(false);
    expect(target.isReached(score(0.2, 0.3, 0.5), 0, text)).toBe(true);
    expect([target.attacksLabel!(2), target.attacksLabel!(0)]).toEqual([false, true]);
    expect(hardLabel(untargeted).computeValue(score(0.9, 0.1), 0, text, original)).toBe(0);
    // With scores: probabilities, the score of the original text does not matter.
    const create = (target: number | null) =>
      createGoal({ target, hardLabel: false, scores: "probabilities" }, ["a", "b", "c"]);
    expect(create(null).computeValue(score(0.6, 0.1, 0.3), 0, text, original)).toBe(1 - 0.6);
    expect(create(2).computeValue(score(0.6, 0.1, 0.3), 0, text, original)).toBe(0.3);
    expect(create(null).isReached(score(0.4, 0.3, 0.3), 0, text)).toBe(false);
    expect(create(2).isReached(score(0.2, 0.3, 0.5), 0, text)).toBe(true);
    const shorter = text.apply({ kind: "delete", position: 0 });
    const reduced = inputReduction.computeValue(original, 0, shorter, original);
    expectClose(reduced, 0.25 + 0.25 * (1 - values[0]!), float64);
    expect(inputReduction.computeValue(score(0.2, 0.8), 0, shorter, original)).toBe(0);
  });
});

describe("constraints", () => {
  const isOpen = (constraint: Constraint, text: EditedText): string[] =>
    text.words.filter((_, position) => constraint.isOpen!(text, position, "swap"));

  test("protected spans keep code, URLs, addresses, numbers, names and quotes", () => {
    const text = EditedText.create([
      'Dear all, run `tar xfvz file` from http://x.org/a or mail me@x.com about 25 dollars to John Smith who said "buy it" today',
    ]);
    const open = isOpen(protectSpans(protectedKinds), text);
    expect(open.join(" ")).toBe("Dear all run from or mail about dollars to who said today");
    expect(isOpen(protectSpans([], [/ru./g]), text)).not.toContain("run");
  });

  test("stop words, fields, length and repeats", () => {
    const text = EditedText.create(["The film was good", "it is"]);
    expect(isOpen(keepStopWords(), text)).toEqual(["film", "good"]);
    expect(isOpen(keepStopWords({ caseSensitive: true }), text)).toEqual(["The", "film", "good"]);
    expect(keepStopWords().isOpen!(text, 2, "delete")).toBe(true);
    expect(isOpen(onlyFields([1]), text)).toEqual(["it", "is"]);
    expect(isOpen(minWordLength(4), text)).toEqual(["film", "good"]);
    const changed = text.apply({ kind: "replace", position: 1, word: "movie" });
    expect(isOpen(noRepeat, changed)).not.toContain("movie");
    expect([nltkStopWords.size, textFoolerStopWords.size]).toEqual([179, 266]);
  });

  test("the number of changed words", () => {
    const text = EditedText.create(["a b c d e"]);
    const once = text.apply({ kind: "replace", position: 0, word: "x" });
    const twice = once.apply({ kind: "insert", position: 3, word: "y" });
    expect([once, twice].map((each) => maxWordsChanged({ fraction: 0.2 }).allows!(each, text))).toEqual([true, false]);
    expect([once, twice].map((each) => maxModificationRate(0.1, 2).allows!(each, text))).toEqual([true, true]);
    expect(isOpen(maxModificationRate(0.1, 1), once)).toEqual(["x"]);
  });

  test("the edit distance is Levenshtein's", () => {
    expect(computeEditDistance("kitten", "sitting", 10)).toBe(3);
    expect(computeEditDistance("", "abc", 2)).toBe(3);
    const slow = (a: string, b: string): number =>
      a === "" || b === ""
        ? a.length + b.length
        : Math.min(
            slow(a.slice(1), b) + 1,
            slow(a, b.slice(1)) + 1,
            slow(a.slice(1), b.slice(1)) + Number(a[0] !== b[0]),
          );
    const short = fc.stringMatching(/^[ab]{0,5}$/);
    fc.assert(
      fc.property(
        short,
        short,
        fc.nat(6),
        (a, b, limit) => computeEditDistance(a, b, limit) === Math.min(slow(a, b), limit + 1),
      ),
    );
    const text = EditedText.create(["abc"]);
    expect(maxEditDistance(1).allows!(text.apply({ kind: "replace", position: 0, word: "axx" }), text)).toBe(false);
  });

  test("the part of speech in context", async () => {
    const text = EditedText.create(["The old dog runs quickly"]);
    const swap = (position: number, word: string) => text.apply({ kind: "replace", position, word });
    const [cat, adverb, verb] = [swap(2, "cat"), swap(2, "quickly"), swap(2, "jumped")];
    const inserted = text.apply({ kind: "insert", position: 0, word: "quickly" });
    const filter = async (allowsNounVerb: boolean) => {
      const generator = samePartOfSpeech({ allowsNounVerb }).filter!([cat, adverb, verb, inserted], text);
      const asked = generator.next([]).value as ResourceRequest;
      expect(asked.resource.kind).toBe("tagger");
      return generator.next(await asked.resource.compute(asked.inputs as never[])).value;
    };
    expect(await filter(false)).toEqual([cat, inserted]);
    expect(await filter(true)).toEqual([cat, verb, inserted]);
  });

  test("the sentence encoder compares windows with the reference text, and skips short texts", () => {
    const words = Array.from({ length: 20 }, (_, i) => `w${i}`);
    const text = EditedText.create([words.join(" ")]);
    const candidate = text.apply({ kind: "replace", position: 10, word: "new" });
    const encoder = { name: "e", kind: "encoder", hash: "", compute: async () => [] } as const;
    const run = (minimum: number, from: EditedText, options = {}) => {
      const generator = minSentenceSimilarity(encoder, { threshold: minimum, window: 5, ...options }).filter!(
        [candidate],
        from,
      );
      const asked = generator.next([]);
      if (asked.done) return { inputs: [], kept: asked.value };
      const inputs = asked.value.inputs as string[];
      const vectors = inputs.map((input) =>
        input.includes("new") ? Float32Array.of(0.6, 0.8) : Float32Array.of(1, 0),
      );
      return { inputs, kept: generator.next(vectors).value as EditedText[] };
    };
    expect(run(0.5, text).inputs).toEqual(["w8 w9 w10 w11 w12", "w8 w9 new w11 w12"]);
    expect(run(0.59, text).kept).toEqual([candidate]);
    expectClose(candidate.similarity!, 0.6);
    expect(run(0.61, text).kept).toEqual([]);
    expect(run(0.71, text, { metric: "angular" }).kept).toEqual([]);
    expectClose(computeAngular(0.6), 1 - Math.acos(0.6) / Math.PI, float64);
    expect(run(0.99, text, { window: 25, skipsShortTexts: true })).toEqual({ inputs: [], kept: [candidate] });
  });
});

describe("transformations", () => {
  const rng = () => new Rng(3);

  test("characters", () => {
    expect(changeWord("abcd", "swap", all, rng())).toEqual(["bacd", "acbd", "abdc"]);
    expect(changeWord("abcd", "swap", inner, rng())).toEqual(["acbd"]);
    expect(changeWord("abcd", "delete", inner, rng())).toEqual(["acd", "abd"]);
    expect(changeWord("abc", "space", all, rng())).toEqual(["a bc", "ab c"]);
    expect(changeWord("Po", "keyboard", all, rng())).toEqual(["Oo", "Lo", "Pi", "Pk", "Pl", "Pp"]);
    expect(changeWord("e", "homoglyph", all, rng())).toEqual(["\u0435"]);
    expect(changeWord("abc", "insert", all, rng()).every((word) => word.length === 4)).toBe(true);
    expect(changeWord("a", "delete", all, rng())).toEqual([]);
    expect(changeWord("abcdef", "substitute", { candidates: "one", innerOnly: false }, rng())).toHaveLength(1);
  });

  test("contractions and numbers", () => {
    const apply = (transformation: Transformation, text: string): string[] => {
      const original = EditedText.create([text]);
      const positions = [...original.slots.keys()];
      return (transformation.apply(original, positions, rng()) as EditedText[]).map(({ texts }) => texts[0]!);
    };
    expect(contractions.size).toBe(77);
    expect(apply(expandContractions, "I don't know")).toEqual(["I do not know"]);
    expect(apply(contractWords, "They are here, I am not.")).toEqual(["They are here, I'm not."]);
    const numbers = apply(changeNumbers, "send 30 of 4").map((text) => Number(/\d+/.exec(text)));
    expect(numbers).toHaveLength(3);
    for (const number of numbers) expect([number >= 1, number < 61]).toEqual([true, true]);
    const names = apply(changeNames, "Ask Laura in Paris");
    expect(names).toHaveLength(6);
    expect(names.filter((text) => /^Ask [A-Z][a-z]+ in Paris$/.test(text) && !text.includes("Laura"))).toHaveLength(3);
    expect(names.filter((text) => /^Ask Laura in [A-Z][a-z]+$/.test(text) && !text.includes("Paris"))).toHaveLength(3);
    expect(apply(rewriteText(findRewriting("letter-spacing")), "buy it")).toEqual(["b u y i t"]);
    expect(apply(rewriteText(findRewriting("zero-width")), "buy")).toEqual(["b\u200bu\u200by"]);
    expect(apply(addPadding(["hi", "all"], 3), "buy")).toEqual(["hi all hi buy"]);
  });

  test("BERT removes invisible characters before it reads a text, RoBERTa does not", async () => {
    const [bert, roberta] = await Promise.all(
      ["bert-tiny", "roberta-tiny"].map((name) => loadTokenizer(join("tests/fixtures", name))),
    );
    const text = "the film was good";
    const rewrite = (name: string): string => {
      const original = EditedText.create([text]);
      return (rewriteText(findRewriting(name)).apply(original, [0, 1, 2, 3], rng()) as EditedText[])[0]!.texts[0]!;
    };
    const isRead = (tokenizer: Tokenizer, changed: string): boolean =>
      tokenizer.encode([changed], 64).ids.join() !== tokenizer.encode([text], 64).ids.join();
    expect(isRead(bert!, rewrite("zero-width"))).toBe(false);
    expect(isRead(roberta!, rewrite("zero-width"))).toBe(true);
    for (const rewriting of ["letter-spacing", "homoglyphs", "bidirectional"] as const)
      expect([bert!, roberta!].map((tokenizer) => isRead(tokenizer, rewrite(rewriting)))).toEqual([true, true]);
  });

  const { "any character": _, ...atPositions } = transformations;

  test("only the words at the given positions change, for any text", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 12 }), { minLength: 1, maxLength: 2 }), fc.nat(), (texts, seed) => {
        const original = EditedText.create(texts);
        const positions = original.slots.flatMap((_, position) => ((seed + position) % 2 === 0 ? [position] : []));
        if (positions.length === 0) return;
        for (const transformation of Object.values(atPositions).flat())
          for (const candidate of transformation.apply(original, positions, new Rng(seed)) as EditedText[]) {
            expect(original.texts).toEqual(texts);
            candidate.slots.forEach(({ origin, field, start, end }, position) => {
              expect(candidate.texts[field]!.slice(start, end)).toBe(candidate.getWord(position));
              const isMerged = transformation === contractWords;
              if (origin >= 0 && !positions.includes(origin) && !isMerged)
                expect(candidate.getWord(position), transformation.name).toBe(original.getWord(origin));
            });
          }
      }),
      { numRuns: 150 },
    );
  });
});
