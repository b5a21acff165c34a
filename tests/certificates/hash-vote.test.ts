import fc from "fast-check";
import { expect, test } from "vitest";
import {
  assignGroup,
  certifyClippedScores,
  certifyHashVote,
  computeCertifiedAccuracy,
  countVotes,
  coversEdits,
  type GroupCertificate,
  getWords,
  listWordEdits,
  runScoring,
  type ScoreTexts,
  type ScoringProcess,
  splitIntoGroups,
  sumClippedScores,
  type TextFields,
} from "../../src/certificates/index.js";
import { findLargestScore } from "../../src/certificates/scoring.js";
import { Rng } from "../../src/tensor/random.js";
import { chooseExtent } from "../extent.js";
import { createLinearModel, createLookupModel, drawWords, editWords, vocabulary } from "./synthetic.js";

const five = { groups: 5, hashSeed: 0 };

test("the group of a word is stable: models are trained with it", () => {
  const words = ["good", "Good", "ﬁlm", "film", "naïve", "Привет", "don't"];
  expect(words.map((word) => assignGroup(word, { groups: 25, hashSeed: 0 }))).toMatchInlineSnapshot(`
    [
      21,
      21,
      0,
      0,
      22,
      6,
      21,
    ]
  `);
  expect(assignGroup("good", { groups: 25, hashSeed: 1 })).toMatchInlineSnapshot(`1`);
});

test("a hash spreads words evenly over the groups", () => {
  const counts = new Array<number>(25).fill(0);
  for (let i = 0; i < 25_000; i++) counts[assignGroup(`word${i}`, { groups: 25, hashSeed: 0 })]! += 1;
  // The standard deviation of each count is 31.
  expect(Math.min(...counts)).toBeGreaterThan(1000 - 5 * 31);
  expect(Math.max(...counts)).toBeLessThan(1000 + 5 * 31);
});

test("sub-texts have all words once, in their order, and the group of a word does not depend on its place", () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...vocabulary), { maxLength: 30 }), (words) => {
      const parts = splitIntoGroups([`${words.join(", ")}!`], five);
      expect(parts).toHaveLength(5);
      for (const [group, part] of parts.entries()) {
        const own = words.filter((word) => assignGroup(word, five) === group);
        expect(part).toEqual(own.length === 0 ? null : [own.join(" ")]);
      }
    }),
  );
});

test("a field that nobody may edit is part of every sub-text", () => {
  const parts = splitIntoGroups(["A man, sleeping.", "w1 w2 w3"], { ...five, editableFields: [1] });
  const present = parts.filter((part) => part !== null);
  expect(present.map(([premise]) => premise)).toEqual(present.map(() => "A man, sleeping."));
  expect(present.flatMap(([, hypothesis]) => getWords(hypothesis!)).sort()).toEqual(["w1", "w2", "w3"]);
});

test("votes: hand-computed certificates, ties to the smaller index, empty groups abstain", () => {
  const vote = (counts: readonly number[]): GroupCertificate =>
    countVotes(
      counts.flatMap((count, label) => new Array<number>(count).fill(label)),
      counts.length,
    );
  // 20 - 5 = 15 > 2 * 7, so 7 groups may change: 3 substitutions, or 1 and 5 insertions.
  const clear = vote([20, 5]);
  expect(clear).toEqual({ label: 0, totals: [20, 5], changeableGroups: 7 });
  expect(coversEdits(clear, { substitutions: 3, insertions: 1 })).toBe(true);
  expect(coversEdits(clear, { substitutions: 4, insertions: 0 })).toBe(false);
  expect(coversEdits(clear, { substitutions: 1, insertions: 5 })).toBe(true);
  // After 7 changes 13 : 12; a tie at an even gap goes to label 0, but not to label 1.
  expect(vote([12, 8]).changeableGroups).toBe(2);
  expect(vote([8, 12])).toEqual({ label: 1, totals: [8, 12], changeableGroups: 1 });
  expect(vote([3, 3])).toEqual({ label: 0, totals: [3, 3], changeableGroups: 0 });
  // The runner-up decides, not the first other label.
  expect(vote([1, 9, 6]).changeableGroups).toBe(1);
  expect(vote([0, 0])).toEqual({ label: 0, totals: [0, 0], changeableGroups: 0 });
});

test("clipped scores of 0 and 1 are votes", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(2), { maxLength: 12 }), (votes) => {
      const rows = votes.map((vote) => [0, 1, 2].map((label) => Number(label === vote)));
      expect(sumClippedScores(rows, { groups: 12, numLabels: 3, low: 0, high: 1 })).toEqual(countVotes(votes, 3));
    }),
  );
});

test("clipped scores: hand-computed", () => {
  const rows = [
    [0.9, 0.1],
    [0.8, 0.2],
    [0.6, 0.4],
  ];
  // The differences are 0.8, 0.6 and 0.2: 1.6 in total. One changed group can take 0.8 + 1, more
  // than that. With scores below 0.625, the range is a quarter, and it takes 0.25 + 0.25.
  expect(sumClippedScores(rows, { groups: 3, numLabels: 2, low: 0, high: 1 }).changeableGroups).toBe(0);
  const clipped = sumClippedScores(rows, { groups: 3, numLabels: 2, low: 0.375, high: 0.625 });
  expect(clipped.label).toBe(0);
  expect(clipped.totals[0]! - clipped.totals[1]!).toBeCloseTo(0.7, 5);
  expect(clipped.changeableGroups).toBe(1);
});

test("wrong scores are errors", async () => {
  const certify = (): ScoringProcess<GroupCertificate> => certifyHashVote(["w1 w2"], { ...five, numLabels: 2 });
  await expect(runScoring([certify()], (texts) => texts.map(() => [Number.NaN, 0]))).rejects.toThrow("NaN");
  await expect(runScoring([certify()], () => [])).rejects.toThrow("one row of scores per text");
  expect(() => sumClippedScores([], { groups: 2, numLabels: 2, low: 1, high: 1 })).toThrow("range of scores");
});

type Certify = (texts: TextFields, model: { groups: number; numLabels: number }) => ScoringProcess<GroupCertificate>;

interface Findings {
  trials: number;
  certified: number;
  violations: number;
}

/** Edits certified texts at random, within what the certificate covers, and counts changed labels. */
async function searchViolations(certify: Certify, minTrials: number, seed: string): Promise<Findings> {
  const rng = new Rng(seed);
  const findings: Findings = { trials: 0, certified: 0, violations: 0 };
  for (let round = 0; findings.trials < minTrials; round++) {
    const options = { groups: 3 + rng.integer(7), numLabels: 2 + rng.integer(2) };
    const create = round % 2 === 0 ? createLookupModel : createLinearModel;
    const model: ScoreTexts = create(round, options.numLabels);
    const texts = Array.from({ length: 50 }, () => drawWords(rng, 1 + rng.integer(15)));
    const certificates = await runScoring(
      texts.map((words) => certify([words.join(" ")], options)),
      model,
    );
    const edited = certificates.flatMap(({ label, changeableGroups }, i) => {
      if (changeableGroups === 0) return [];
      findings.certified++;
      return Array.from({ length: 40 }, () => {
        const substitutions = rng.integer(Math.floor(changeableGroups / 2) + 1);
        const edits = { substitutions, insertions: changeableGroups - 2 * substitutions };
        return { label, words: editWords(texts[i]!, edits, rng) };
      });
    });
    const results = await runScoring(
      edited.map(({ words }) => certify([words.join(" ")], options)),
      model,
    );
    findings.trials += results.length;
    findings.violations += results.filter(({ label }, i) => label !== edited[i]!.label).length;
  }
  return findings;
}

const trials = chooseExtent(30_000, 400_000);
/** Milliseconds, for many trials on a busy host. */
const longTimeout = 900_000;

test(
  "no edit within the certificate of a vote changes the label",
  async () => {
    const certify: Certify = (texts, options) => certifyHashVote(texts, { ...options, hashSeed: 3 });
    const { certified, violations } = await searchViolations(certify, trials, "vote");
    expect(certified).toBeGreaterThan(trials / 100);
    expect(violations).toBe(0);
  },
  longTimeout,
);

test(
  "no edit within the certificate of clipped scores changes the label",
  async () => {
    const certify: Certify = (texts, options) =>
      certifyClippedScores(texts, { ...options, hashSeed: 3, low: 0.4, high: 0.6 });
    const { certified, violations } = await searchViolations(certify, trials, "clipped");
    expect(certified).toBeGreaterThan(trials / 100);
    expect(violations).toBe(0);
  },
  longTimeout,
);

/** A vote over groups that a test chooses. */
function certifyByGroups(split: (texts: TextFields, groups: number) => string[]): Certify {
  return function* (texts, { groups, numLabels }) {
    const rows = yield split(texts, groups).flatMap((part) => (part === "" ? [] : [[part]]));
    return countVotes(rows.map(findLargestScore), numLabels);
  };
}

test("planted mistake: groups by position instead of hash are caught", async () => {
  const byPosition = certifyByGroups(([text], groups) => {
    const words = getWords(text!);
    return Array.from({ length: groups }, (_, group) => words.filter((_, i) => i % groups === group).join(" "));
  });
  expect((await searchViolations(byPosition, 5000, "vote")).violations).toBeGreaterThan(0);
});

test("planted mistake: truncation before the groups is caught", async () => {
  const truncated = certifyByGroups(([text], groups) => {
    const words = getWords(text!).slice(0, 6).join(" ");
    return splitIntoGroups([words], { groups, hashSeed: 3 }).map((part) => part?.[0] ?? "");
  });
  expect((await searchViolations(truncated, 5000, "vote")).violations).toBeGreaterThan(0);
});

test("planted mistake: one changed group per substitution is caught", async () => {
  const certify: Certify = function* (texts, options) {
    const certificate = yield* certifyHashVote(texts, { ...options, hashSeed: 3 });
    return { ...certificate, changeableGroups: 2 * certificate.changeableGroups };
  };
  expect((await searchViolations(certify, 5000, "vote")).violations).toBeGreaterThan(0);
});

test("the certificate of a vote is tight: one more group can change the label", async () => {
  // A sub-text with a trigger has label 1. Any other sub-text has label 0.
  const model: ScoreTexts = (texts) => texts.map(([text]) => (text!.includes("trigger") ? [0, 1] : [1, 0]));
  const options = { groups: 9, hashSeed: 0, numLabels: 2 };
  const words = vocabulary.slice(0, 30);
  const triggers = new Map(
    Array.from({ length: 200 }, (_, i) => `trigger${i}`).map((word) => [assignGroup(word, options), word]),
  );
  const classify = async (count: number): Promise<GroupCertificate> => {
    const text = [...words, ...[...triggers.values()].slice(0, count)].join(" ");
    return (await runScoring([certifyHashVote([text], options)], model))[0]!;
  };
  expect(triggers.size).toBe(9);
  const clean = await classify(0);
  expect(clean).toMatchObject({ label: 0, changeableGroups: 4 });
  expect((await classify(4)).label).toBe(0);
  expect((await classify(5)).label).toBe(1);
});

test("certified accuracy counts correct and certified texts, with an interval", () => {
  const certificates = [countVotes([0, 0, 0, 0, 0], 2), countVotes([0, 0, 0], 2), countVotes([1, 1, 1, 1, 1], 2)];
  const table = computeCertifiedAccuracy(
    certificates,
    listWordEdits(1, 1),
    (each, edits) => each.label === 0 && coversEdits(each, edits),
  );
  expect(table.map(({ substitutions, insertions, accuracy }) => [substitutions, insertions, accuracy])).toEqual([
    [0, 0, 2 / 3],
    [0, 1, 2 / 3],
    [1, 0, 1 / 3],
    [1, 1, 0],
  ]);
  expect(table[0]!.interval.low).toBeLessThan(2 / 3);
});
