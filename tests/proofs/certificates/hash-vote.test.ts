import fc from "fast-check";
import { expect, test } from "vitest";
import { Rng } from "../../../src/base/rng.js";
import {
  assignGroup,
  certifyHashVote,
  certifyVotes,
  computeCertifiedAccuracy,
  computeWordMargins,
  coversEdits,
  findLargestScore,
  type GroupCertificate,
  getWords,
  type HashVoteOptions,
  type LabelScores,
  runScoring,
  type ScoreTexts,
  type ScoringProcess,
  splitIntoGroups,
  type TextFields,
  type WordEdits,
} from "../../../src/proofs/certificates/index.js";
import { chooseExtent } from "../../extent.js";
import { expectClose, float64 } from "../../rounding.js";
import { createLinearModel, createLookupModel, drawWords, editWords, listWordEdits, vocabulary } from "./synthetic.js";

/** A certificate of votes, one per group. */
function countVotes(votes: readonly number[], numLabels: number, groups = 30): GroupCertificate {
  const rows = votes.map((vote) => Array.from({ length: numLabels }, (_, label) => Number(label === vote)));
  return certifyVotes(rows, { groups, numLabels });
}

const five = { groups: 5, hashSeed: 0 };

test("the group of a word is stable: models are trained with it", () => {
  const words = ["good", "Good", "ﬁlm", "film", "naïve", "Привет", "don't"];
  expect(words.map((word) => assignGroup(word, { groups: 25, hashSeed: 0 }))).toEqual([21, 21, 0, 0, 22, 6, 21]);
  expect(assignGroup("good", { groups: 25, hashSeed: 1 })).toBe(1);
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
  expect(clear).toEqual({ label: 0, totals: [20, 5], changeableGroups: 7, undecided: 0 });
  expect(coversEdits(clear, { substitutions: 3, insertions: 1 })).toBe(true);
  expect(coversEdits(clear, { substitutions: 4, insertions: 0 })).toBe(false);
  expect(coversEdits(clear, { substitutions: 1, insertions: 5 })).toBe(true);
  // After 7 changes 13 : 12; a tie at an even gap goes to label 0, but not to label 1.
  expect(vote([12, 8]).changeableGroups).toBe(2);
  expect(vote([8, 12])).toEqual({ label: 1, totals: [8, 12], changeableGroups: 1, undecided: 0 });
  expect(vote([3, 3])).toEqual({ label: 0, totals: [3, 3], changeableGroups: 0, undecided: 0 });
  // The runner-up decides, not the first other label.
  expect(vote([1, 9, 6]).changeableGroups).toBe(1);
  expect(vote([0, 0])).toEqual({ label: 0, totals: [0, 0], changeableGroups: 0, undecided: 0 });
});

test("clipped leads: hand-computed", () => {
  const rows = [
    [0.8, 0.2],
    [0.8, 0.2],
    [0.5, 0.5],
  ];
  // Leads of log 4 = 1.386 and 0. With a full vote at 2.772, the differences are 0.5, 0.5 and 0.
  const half = certifyVotes(rows, { groups: 3, numLabels: 2, clip: 2 * Math.log(4) });
  expect(half.label).toBe(0);
  expectClose(half.totals[0]! - half.totals[1]!, 1, float64);
  expect(half.changeableGroups).toBe(0);
  // Ten of them have 5 together, and each takes 1.5: three leave 0.5.
  const ten = new Array<number[]>(10).fill([0.8, 0.2]);
  expect(certifyVotes(ten, { groups: 10, numLabels: 2, clip: 2 * Math.log(4) }).changeableGroups).toBe(3);
  // With three labels, each label is compared with the best other one.
  const three = certifyVotes([[0.5, 0.4, 0.1]], { groups: 1, numLabels: 3, clip: 1 });
  expect(three.totals.map((total) => Number(total.toFixed(4)))).toEqual([0.1116, -0.1116, -0.5]);
  // Near ties of the sums are not certified, in every group and for both labels.
  expect(certifyVotes([[0.6, 0.4]], { groups: 10, numLabels: 2, clip: 1, minMargin: 0.01 }).changeableGroups).toBe(-1);
});

test("leads with a limit near 0 are votes", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(1), fc.constantFrom(0.6, 0.7, 0.9)), { maxLength: 12 }), (groups) => {
      const rows = groups.map(([label, p]) => (label === 0 ? [p, 1 - p] : [1 - p, p]));
      const votes = countVotes(
        groups.map(([label]) => label),
        2,
        12,
      );
      // A tie of leads is not certified.
      fc.pre(votes.totals[0] !== votes.totals[1] && (votes.totals[0]! - votes.totals[1]!) % 2 !== 0);
      const clipped = certifyVotes(rows, { groups: 12, numLabels: 2, clip: 1e-3 });
      expect(clipped.label).toBe(votes.label);
      expect(clipped.changeableGroups).toBe(votes.changeableGroups);
    }),
  );
});

test("wrong scores are errors", async () => {
  const certify = (): ScoringProcess<GroupCertificate> => certifyHashVote(["w1 w2"], { ...five, numLabels: 2 });
  await expect(runScoring([certify()], (texts) => texts.map(() => [Number.NaN, 0]))).rejects.toThrow("NaN");
  await expect(runScoring([certify()], () => [])).rejects.toThrow("one row of scores per text");
  const clipped = { groups: 2, numLabels: 2, clip: 2 };
  expect(() => certifyVotes([[3, -3]], clipped)).toThrow("expected a probability");
  expect(() => certifyVotes([[0.5, 0.5]], { ...clipped, clip: 0 })).toThrow("positive limit");
});

test("each distinct word as a group: copies change nothing, and hand-computed certificates", () => {
  const options = { groups: "words", hashSeed: 0 } as const;
  expect(splitIntoGroups(["Good film, GOOD ﬁlm!"], options)).toEqual([["good"], ["film"]]);
  expect(splitIntoGroups(["a b", "b"], options)).toEqual([
    ["a", ""],
    ["b", ""],
    ["", "b"],
  ]);
  // Ten words have 5 full votes together. A substitution takes 0.5 and adds 1 against them; an insertion adds 1.
  const rows = new Array<number[]>(10).fill([0.8, 0.2]);
  const rule = { groups: "words", numLabels: 2, clip: 2 * Math.log(4) } as const;
  expect(certifyVotes(rows, rule).changeableGroups).toBe(4);
  const margins = computeWordMargins(rows, rule, [
    { substitutions: 1, insertions: 0 },
    { substitutions: 3, insertions: 0 },
    { substitutions: 0, insertions: 4 },
    { substitutions: 1, insertions: 1 },
  ]);
  expect(margins.map((margin) => Number(margin.toFixed(6)))).toEqual([3.5, 0.5, 1, 2.5]);
});

/** A certificate under test. */
interface Claim<C> {
  readonly options: HashVoteOptions;
  certify(texts: TextFields): ScoringProcess<C>;
  /** Edits that must not change the label. */
  drawEdits(certificate: C): WordEdits[];
}

/** A model that answers at random, or a linear one, with probabilities that are often near 0 and 1. */
function createProbabilityModel(round: number, numLabels: number): ScoreTexts {
  const create = round % 2 === 0 ? createLookupModel : createLinearModel;
  const model = create(round, numLabels);
  return async (texts) =>
    (await model(texts)).map((row) => {
      const weights = Array.from(row, (score) => Math.exp(6 * score));
      const sum = weights.reduce((total, weight) => total + weight, 0);
      return weights.map((weight) => weight / sum);
    });
}

/** Edits texts as their certificates allow, and counts changed labels. */
async function searchViolations<C extends { label: number }>(
  create: (rng: Rng, round: number) => Claim<C>,
  minTrials: number,
): Promise<{ certified: number; violations: number }> {
  const rng = new Rng("violations");
  const found = { trials: 0, certified: 0, violations: 0 };
  for (let round = 0; found.trials < minTrials; round++) {
    const { options, certify, drawEdits } = create(rng, round);
    const model = createProbabilityModel(round, options.numLabels);
    const texts = Array.from({ length: 50 }, () => drawWords(rng, 1 + rng.integer(15)));
    const certificates = await runScoring(
      texts.map((words) => certify([words.join(" ")])),
      model,
    );
    const edited = certificates.flatMap((certificate, i) => {
      const edits = drawEdits(certificate);
      found.certified += Number(edits.length > 0);
      return edits.map((each) => ({ label: certificate.label, words: editWords(texts[i]!, each, rng) }));
    });
    const results = await runScoring(
      edited.map(({ words }) => certify([words.join(" ")])),
      model,
    );
    found.trials += results.length;
    found.violations += results.filter(({ label }, i) => label !== edited[i]!.label).length;
  }
  return found;
}

type Certify = (texts: TextFields, options: HashVoteOptions) => ScoringProcess<GroupCertificate>;

/** A claim about the number of groups that edits may change. */
function claimGroups(change: Partial<HashVoteOptions>, certify: Certify = certifyHashVote) {
  return (rng: Rng): Claim<GroupCertificate> => {
    const options = { groups: 3 + rng.integer(7), hashSeed: 3, numLabels: 2 + rng.integer(2), ...change };
    return {
      options,
      certify: (texts) => certify(texts, options),
      drawEdits: ({ changeableGroups }) =>
        Array.from({ length: changeableGroups > 0 ? 40 : 0 }, () => {
          const substitutions = rng.integer(Math.floor(changeableGroups / 2) + 1);
          return { substitutions, insertions: changeableGroups - 2 * substitutions };
        }),
    };
  };
}

/** Certifies distinct words for each number of edits. `change` is a planted mistake. */
function createWordCertificate(change = (margin: number, _: WordEdits): number => margin) {
  return function* (texts: TextFields, options: HashVoteOptions, edits: readonly WordEdits[]) {
    const rows: readonly LabelScores[] = yield splitIntoGroups(texts, options).filter((group) => group !== null);
    const margins = computeWordMargins(rows, options, edits).map((margin, i) => change(margin, edits[i]!));
    return { label: certifyVotes(rows, options).label, margins };
  };
}

/** A claim about the numbers of edits that leave a margin. */
function claimMargins(certify = createWordCertificate()) {
  const edits = listWordEdits(2, 2).slice(1);
  return (rng: Rng, round: number): Claim<{ label: number; margins: number[] }> => {
    const clip = round % 3 === 0 ? null : 0.3 + rng.next() * 2;
    const options = { groups: "words", hashSeed: 3, numLabels: 2 + rng.integer(2), clip } as const;
    return {
      options,
      certify: (texts) => certify(texts, options, edits),
      drawEdits: ({ margins }) =>
        edits.flatMap((each, i) => (margins[i]! > 0 ? Array.from({ length: 8 }, () => each) : [])),
    };
  };
}

const trials = chooseExtent(4000, 400_000);

test.each([
  ["a vote", () => searchViolations(claimGroups({}), trials)],
  ["clipped leads", () => searchViolations(claimGroups({ clip: 0.7 }), trials)],
  ["distinct words", () => searchViolations(claimGroups({ groups: "words" }), trials)],
  ["distinct words with clipped leads", () => searchViolations(claimGroups({ groups: "words", clip: 0.7 }), trials)],
  ["the margins of distinct words", () => searchViolations(claimMargins(), trials)],
])(
  "no edit within the certificate of %s changes the label",
  async (_, search) => {
    const { certified, violations } = await search();
    expect(certified).toBeGreaterThan(trials / 100);
    expect(violations).toBe(0);
  },
  // Milliseconds, for many trials on a busy host.
  900_000,
);

test("planted mistake: words that come for nothing are caught", async () => {
  const certify = createWordCertificate((margin, { substitutions, insertions }) => margin + substitutions + insertions);
  expect((await searchViolations(claimMargins(certify), 5000)).violations).toBeGreaterThan(0);
});

test("the margins of distinct words never certify less than the number of changed groups, and sometimes more", async () => {
  const rng = new Rng("compare");
  const edits = listWordEdits(2, 2);
  const certify = createWordCertificate();
  let more = 0;
  for (const clip of [null, 10]) {
    const options = { groups: "words", hashSeed: 0, numLabels: 2, clip } as const;
    const texts = Array.from({ length: 300 }, () => [drawWords(rng, 20).join(" ")]);
    const model = createProbabilityModel(1, 2);
    const simple = await runScoring(
      texts.map((text) => certifyHashVote(text, options)),
      model,
    );
    const exact = await runScoring(
      texts.map((text) => certify(text, options, edits)),
      model,
    );
    for (const [i, certificate] of simple.entries()) {
      expect(exact[i]!.label).toBe(certificate.label);
      for (const [k, each] of edits.entries()) {
        const isCertified = exact[i]!.margins[k]! > 0;
        if (coversEdits(certificate, each)) expect(isCertified).toBe(true);
        else if (isCertified) more++;
      }
    }
  }
  expect(more).toBeGreaterThan(0);
});

/** A vote over groups that a test chooses. */
function certifyByGroups(split: (texts: TextFields, groups: number) => string[]): Certify {
  return function* (texts, { groups, numLabels }) {
    const rows = yield split(texts, Number(groups)).flatMap((part) => (part === "" ? [] : [[part]]));
    return countVotes(rows.map(findLargestScore), numLabels, Number(groups));
  };
}

const byPosition = certifyByGroups(([text], groups) => {
  const words = getWords(text!);
  return Array.from({ length: groups }, (_, group) => words.filter((_, i) => i % groups === group).join(" "));
});
const truncated = certifyByGroups(([text], groups) => {
  const words = getWords(text!).slice(0, 6).join(" ");
  return splitIntoGroups([words], { groups, hashSeed: 3 }).map((part) => part?.[0] ?? "");
});
const doubled: Certify = function* (texts, options) {
  const certificate = yield* certifyHashVote(texts, options);
  return { ...certificate, changeableGroups: 2 * certificate.changeableGroups };
};

test.each([
  ["groups by position instead of hash", claimGroups({}, byPosition)],
  ["truncation before the groups", claimGroups({}, truncated)],
  ["one changed group per substitution", claimGroups({}, doubled)],
  ["one changed distinct word per substitution", claimGroups({ groups: "words" }, doubled)],
])("planted mistake: %s is caught", async (_, claim) => {
  expect((await searchViolations(claim, 5000)).violations).toBeGreaterThan(0);
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
  const rows = listWordEdits(1, 1);
  const table = computeCertifiedAccuracy(
    certificates,
    rows,
    (each, row) => each.label === 0 && coversEdits(each, rows[row]!),
  );
  expect(table.map(({ substitutions, insertions, accuracy }) => [substitutions, insertions, accuracy])).toEqual([
    [0, 0, 2 / 3],
    [0, 1, 2 / 3],
    [1, 0, 1 / 3],
    [1, 1, 0],
  ]);
  expect(table[0]!.interval.low).toBeLessThan(2 / 3);
});
