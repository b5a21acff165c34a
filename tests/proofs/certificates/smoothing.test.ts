import { expect, test } from "vitest";
import { Rng } from "../../../src/base/rng.js";
import { logGamma } from "../../../src/evaluation/special-functions.js";
import { median } from "../../../src/evaluation/statistics.js";
import {
  certifySmoothed,
  computeConfidenceSequence,
  computeDeletionShift,
  computeDeletionThreshold,
  computeEditThreshold,
  computeSequentialPValue,
  createDeletionKernel,
  findLargestScore,
  type NoiseKernel,
  runScoring,
  type ScoreTexts,
  type SmoothedCertificate,
  type SmoothingOptions,
  selectCertified,
} from "../../../src/proofs/certificates/index.js";
import { computeLogEvidence } from "../../../src/proofs/certificates/sequential-test.js";
import { chooseExtent } from "../../extent.js";
import { computeTolerance, expectClose, float64 } from "../../rounding.js";
import { createLinearModel, drawWords, editWords, vocabulary } from "./synthetic.js";

type Distribution = ReadonlyMap<string, number>;

/** What rounding may change in probabilities: a text of up to 7 words has 2^7 noised versions. */
const rounding = computeTolerance([1], { ...float64, terms: 2 ** 7 });

/** The exact distribution of a text after each word is deleted with probability p. */
function enumerateDeletion(words: readonly string[], p: number): Distribution {
  const distribution = new Map<string, number>();
  for (let kept = 0; kept < 2 ** words.length; kept++) {
    const chosen = words.filter((_, i) => (kept >> i) & 1);
    const probability = p ** (words.length - chosen.length) * (1 - p) ** chosen.length;
    const text = chosen.join(" ");
    distribution.set(text, (distribution.get(text) ?? 0) + probability);
  }
  return distribution;
}

/** The largest difference of p_A between two texts, over all models: the total variation. */
function computeVariation(first: Distribution, second: Distribution): number {
  let sum = 0;
  for (const text of new Set([...first.keys(), ...second.keys()]))
    sum += Math.abs((first.get(text) ?? 0) - (second.get(text) ?? 0));
  return sum / 2;
}

/** Random pairs of texts, the second after r word edits of the first. */
function* drawPairs(count: number, seed: string): Generator<{ words: string[]; edited: string[]; edits: number }> {
  const rng = new Rng(seed);
  const small = vocabulary.slice(0, 5);
  for (let i = 0; i < count; i++) {
    const words = drawWords(rng, 1 + rng.integer(5), small);
    const edits = 1 + rng.integer(2);
    const substitutions = rng.integer(edits + 1);
    const edited = editWords(words, { substitutions, insertions: edits - substitutions }, rng, small);
    yield { words, edited, edits };
  }
}

const p = 0.7;
const pairs = chooseExtent(500, 60_000);

test("no model can tell a text from its edited version better than Delta_r, if the words are deleted first", () => {
  let tight = 0;
  for (const { words, edited, edits } of drawPairs(pairs, "pairs")) {
    const shift = computeDeletionShift(p, edits);
    const [first, second] = [enumerateDeletion(words, p), enumerateDeletion(edited, p)];
    const variation = computeVariation(first, second);
    expect(variation).toBeLessThan(shift + rounding);
    if (variation > shift - rounding) tight++;
    // Truncation after the noise is part of the model.
    const truncate = (distribution: Distribution): Distribution => {
      const result = new Map<string, number>();
      for (const [text, probability] of distribution) {
        const short = text.split(" ").slice(0, 2).join(" ");
        result.set(short, (result.get(short) ?? 0) + probability);
      }
      return result;
    };
    expect(computeVariation(truncate(first), truncate(second))).toBeLessThan(shift + rounding);
  }
  expect(tight).toBeGreaterThan(0);
}, 900_000);

test("planted mistake: a wrong Delta is caught", () => {
  // The sum of single deletions ignores that both words must be deleted together.
  const wrong = [...drawPairs(2000, "pairs")].filter(({ words, edited, edits }) => {
    const variation = computeVariation(enumerateDeletion(words, p), enumerateDeletion(edited, p));
    return variation > (1 - p) ** edits + rounding;
  });
  expect(wrong.length).toBeGreaterThan(0);
});

test("planted mistake: truncation before the noise is caught", () => {
  // A word can have many tokens. This one takes the place of three others.
  const long = vocabulary[4]!;
  const truncate = (words: readonly string[]): string[] => {
    let tokens = 0;
    return words.filter((word) => {
      tokens += word === long ? 3 : 1;
      return tokens <= 4;
    });
  };
  const wrong = [...drawPairs(2000, "pairs")].filter(({ words, edited, edits }) => {
    const [first, second] = [words, edited].map((each) => enumerateDeletion(truncate(each), p));
    return computeVariation(first!, second!) > computeDeletionShift(p, edits) + rounding;
  });
  expect(wrong.length).toBeGreaterThan(0);
});

test("thresholds by removed and added words hold for all models, and are the sharpest", () => {
  const words = ["a", "b", "c"];
  const cases = [
    { removed: 1, added: 0, edited: ["a", "c"] },
    { removed: 0, added: 1, edited: ["a", "x", "b", "c"] },
    { removed: 1, added: 1, edited: ["a", "x", "c"] },
    { removed: 2, added: 1, edited: ["x", "c"] },
    { removed: 1, added: 2, edited: ["x", "b", "y", "c"] },
  ];
  for (const { removed, added, edited } of cases)
    for (const probability of [0.75, 0.8, 0.9]) {
      const [first, second] = [enumerateDeletion(words, probability), enumerateDeletion(edited, probability)];
      // The worst model for each p_A: by the Neyman-Pearson lemma it takes the noised texts that are
      // least likely for the edited text first.
      const outcomes = [...first].map(([text, mass]) => ({ mass, other: second.get(text) ?? 0 }));
      outcomes.sort((one, two) => one.other / one.mass - two.other / two.mass);
      // p_A' as a function of p_A is linear between these points.
      let [mass, other] = [0, 0];
      let threshold = 1;
      for (const outcome of outcomes) {
        if (other + outcome.other > 0.5) {
          threshold = mass + (outcome.mass * (0.5 - other)) / outcome.other;
          break;
        }
        mass += outcome.mass;
        other += outcome.other;
      }
      const computed = computeDeletionThreshold(probability, removed, added);
      if (computed >= 1) continue;
      expect(computed).toBeGreaterThan(threshold - rounding);
      expect(computed).toBeLessThan(threshold + 0.12);
    }
  // The bound of the literature is that for substitutions.
  expectClose(computeEditThreshold(0.9, { substitutions: 3, insertions: 0 }), 0.5 + 1 - 0.9 ** 3, float64);
  expectClose(computeEditThreshold(0.9, { substitutions: 0, insertions: 1 }), 1 / 1.8, float64);
});

test("a certificate for more edits covers fewer", () => {
  for (const probability of [0.6, 0.8, 0.9, 0.95])
    for (let substitutions = 0; substitutions < 8; substitutions++)
      for (let insertions = 0; insertions < 8; insertions++) {
        const threshold = computeEditThreshold(probability, { substitutions, insertions });
        if (threshold >= 1) continue;
        const any = computeEditThreshold(probability, { substitutions: substitutions + insertions, insertions: 0 });
        expect(any).toBeGreaterThanOrEqual(threshold - rounding);
        for (const [s, t] of [
          [substitutions - 1, insertions],
          [substitutions, insertions - 1],
        ] as const)
          if (s >= 0 && t >= 0)
            expect(computeEditThreshold(probability, { substitutions: s, insertions: t })).toBeLessThan(threshold);
      }
});

test("evidence: hand-computed, and the lower end is the threshold of the test", () => {
  expect(computeLogEvidence(0, 0, 0.3)).toBe(0);
  // B(3/2, 1/2) / B(1/2, 1/2) = 1/2.
  expectClose(computeLogEvidence(1, 1, 0.3), Math.log(0.5 / 0.3), { ...float64, scale: 2 });
  const { low, high } = computeConfidenceSequence(90, 100, 0.05);
  // Logarithms of factorials cancel.
  const evidenceRounding = { ...float64, scale: logGamma(101) };
  const evidence = [low, high].map((end) => computeLogEvidence(90, 100, end));
  expectClose(evidence, [-Math.log(0.05), -Math.log(0.05)], evidenceRounding);
  expect(low).toBeLessThan(0.9);
  expect(high).toBeGreaterThan(0.9);
  expectClose(computeSequentialPValue(90, 100, low), 0.05, { ...float64, scale: 0.05 * logGamma(101) });
  expect(computeSequentialPValue(90, 100, 0.95)).toBe(1);
  expect(computeConfidenceSequence(0, 10, 0.05).low).toBe(0);
  expect(computeConfidenceSequence(10, 10, 0.05).high).toBe(1);
  expect(computeConfidenceSequence(0, 0, 0.05)).toEqual({ low: 0, high: 1 });
});

const defaults: SmoothingOptions = { numLabels: 2, alpha: 0.001, classSamples: 8, maxSamples: 4000, batchSize: 1 };

/** A text that is one random number, and a model that has label 0 below `probability`. */
const drawNumber: NoiseKernel = (rng) => [String(rng.next())];
function createCoin(probability: number): ScoreTexts {
  return (texts) => texts.map(([text]) => (Number(text) < probability ? [1, 0] : [0, 1]));
}

async function certifyCoins(
  probability: number,
  threshold: number,
  options: SmoothingOptions,
  count: number,
): Promise<SmoothedCertificate[]> {
  const processes = Array.from({ length: count }, (_, i) =>
    certifySmoothed(drawNumber, [threshold], options, new Rng(i).fork("coins")),
  );
  return runScoring(processes, createCoin(probability));
}

test("the sequential test needs few samples", async () => {
  const threshold = computeEditThreshold(0.9, { substitutions: 3, insertions: 0 });
  const countMedian = async (probability: number): Promise<number> => {
    const found = await certifyCoins(probability, threshold, defaults, 300);
    expect(found.filter(({ certified }) => certified[0]).length).toBeGreaterThan(295);
    return median(found.map(({ samples }) => samples));
  };
  expect(Math.abs((await countMedian(0.99)) - 36)).toBeLessThan(5);
  expect(Math.abs((await countMedian(0.95)) - 70)).toBeLessThan(10);
});

test("the mirrored test gives up early", async () => {
  const found = await certifyCoins(0.6, 0.771, defaults, 100);
  expect(found.every(({ certified }) => !certified[0])).toBe(true);
  expect(median(found.map(({ samples }) => samples))).toBeLessThan(200);
});

test("a threshold of 1 or more is decided without draws", async () => {
  const [found] = await certifyCoins(1, 1.2, defaults, 1);
  expect(found).toMatchObject({ samples: 0, certified: [false], pValues: [1] });
});

test("the result does not depend on the batch size, except for draws of the last batch", async () => {
  const certify = (batchSize: number): Promise<SmoothedCertificate[]> =>
    certifyCoins(0.9, 0.899, { ...defaults, maxSamples: 64, batchSize }, 5);
  const [one, many] = [await certify(1), await certify(64)];
  expect(one.map(({ label, successes, samples }) => [label, successes, samples])).toEqual(
    many.map(({ label, successes, samples }) => [label, successes, samples]),
  );
});

/** How often the bound is above the truth, or a threshold that equals the truth is certified. */
test("coverage: the bound is wrong at most as often as alpha says, at all times", () => {
  const alpha = 0.05;
  const runs = chooseExtent(300, 20_000);
  for (const probability of [0.6, 0.9, 0.99]) {
    let wrong = 0;
    for (let run = 0; run < runs; run++) {
      const rng = new Rng(run).fork("coverage", probability);
      let successes = 0;
      for (let count = 1; count <= 200; count++) {
        successes += Number(rng.next() < probability);
        if (computeLogEvidence(successes, count, probability) < -Math.log(alpha)) continue;
        wrong++;
        break;
      }
    }
    expect(wrong / runs).toBeLessThan(alpha + 3 * Math.sqrt((alpha * (1 - alpha)) / runs));
  }
}, 900_000);

/** A source of given draws, by the names of the streams. It saves the time to fork a real one. */
class GivenRng extends Rng {
  #current = 0;

  constructor(readonly draws: Readonly<Record<string, ArrayLike<number>>>) {
    super(0);
  }

  override fork(name: string, i: number): Rng {
    this.#current = this.draws[name]![i]!;
    return this;
  }

  override next(): number {
    return this.#current;
  }
}

/** Labels of equal probability. The threshold is that probability, so no label is above it. */
async function countFalseCertificates(isShared: boolean): Promise<number> {
  const numLabels = 20;
  const rows = Array.from({ length: numLabels }, (_, chosen) =>
    Array.from({ length: numLabels }, (_, label) => Number(label === chosen)),
  );
  const model: ScoreTexts = (texts) => texts.map(([text]) => rows[Math.floor(Number(text) * numLabels)]!);
  const samples = 400;
  const options = { numLabels, alpha: 0.1, classSamples: samples, maxSamples: samples, batchSize: 1 };
  const processes = Array.from({ length: chooseExtent(100, 300) }, (_, i) => {
    const draw = (name: string): Float64Array => {
      const rng = new Rng(i).fork(name);
      return Float64Array.from({ length: samples }, () => rng.next());
    };
    const rng = new GivenRng({ class: draw(isShared ? "bound" : "class"), bound: draw("bound") });
    return certifySmoothed(drawNumber, [1 / numLabels], options, rng);
  });
  const found = await runScoring(processes, model);
  return found.filter(({ certified }) => certified[0]).length / found.length;
}

test("the class is chosen on separate samples", async () => {
  expect(await countFalseCertificates(false)).toBeLessThan(0.1);
});

test("planted mistake: the same samples for class and bound are caught", async () => {
  expect(await countFalseCertificates(true)).toBeGreaterThan(0.1);
});

test("no edit within the certificate changes the smoothed label", async () => {
  const rng = new Rng("smoothed");
  const minTrials = chooseExtent(800, 40_000);
  const probability = 0.85;
  const edits = [
    { substitutions: 0, insertions: 1 },
    { substitutions: 1, insertions: 0 },
    { substitutions: 1, insertions: 1 },
  ];
  const thresholds = edits.map((each) => computeEditThreshold(probability, each));
  let [trials, violations] = [0, 0];
  for (let round = 0; trials < minTrials; round++) {
    const model = createLinearModel(round, 2);
    const known = new Map<string, number>();
    const classify = async (texts: readonly string[]): Promise<number[]> => {
      const unknown = texts.filter((text) => !known.has(text));
      const rows = await model(unknown.map((text) => [text]));
      for (const [i, row] of rows.entries()) known.set(unknown[i]!, findLargestScore(row));
      return texts.map((text) => known.get(text)!);
    };
    /** The exact label of the smoothed model. */
    const smooth = async (words: readonly string[]): Promise<number> => {
      const distribution = enumerateDeletion(words, probability);
      const labels = await classify([...distribution.keys()]);
      const first = [...distribution.values()].reduce((sum, mass, i) => sum + (labels[i] === 0 ? mass : 0), 0);
      return first >= 0.5 ? 0 : 1;
    };
    const texts = Array.from({ length: 4 }, () => drawWords(rng, 2 + rng.integer(5)));
    const options = { ...defaults, batchSize: 50, maxSamples: 1000 };
    const certificates = await runScoring(
      texts.map((words, i) =>
        certifySmoothed(createDeletionKernel([words.join(" ")], probability), thresholds, options, rng.fork(round, i)),
      ),
      model,
    );
    for (const [i, { label, certified }] of certificates.entries())
      for (const [k, each] of edits.entries()) {
        if (!certified[k]) continue;
        for (let trial = 0; trial < 20; trial++) {
          trials++;
          violations += Number((await smooth(editWords(texts[i]!, each, rng))) !== label);
        }
      }
  }
  expect(violations).toBe(0);
}, 900_000);

test("the deletion kernel deletes each word with probability p, and keeps other fields", () => {
  const draw = createDeletionKernel(["Keep, all of this!", "w1 w2 w3"], 0.75, [1]);
  const rng = new Rng("kernel");
  const counts = new Map<string, number>();
  for (let i = 0; i < 20_000; i++) {
    const [first, second] = draw(rng.fork(i));
    expect(first).toBe("Keep, all of this!");
    counts.set(second!, (counts.get(second!) ?? 0) + 1);
  }
  for (const [text, mass] of enumerateDeletion(["w1", "w2", "w3"], 0.75))
    expect(Math.abs((counts.get(text) ?? 0) / 20_000 - mass)).toBeLessThan(0.015);
  for (const wrong of [0, 1, Number.NaN]) expect(() => createDeletionKernel(["a"], wrong)).toThrow("between 0 and 1");
});

test("confidence of a table: Holm", () => {
  // Holm: 0.01 <= 0.05 / 4, then 0.012 <= 0.05 / 3, then 0.03 > 0.05 / 2.
  expect(selectCertified([0.03, 0.01, 0.012, 0.5], 0.05)).toEqual([false, true, true, false]);
});

test("p-values of a table: Holm certifies a wrong text at most as often as alpha says", async () => {
  const threshold = 0.8;
  const tables = chooseExtent(20, 60);
  let wrong = 0;
  for (let table = 0; table < tables; table++) {
    const processes = Array.from({ length: 20 }, (_, i) =>
      certifySmoothed(
        drawNumber,
        [threshold],
        { ...defaults, alpha: 0.1 / 20, maxSamples: 200, batchSize: 10 },
        new Rng(table).fork("table", i),
      ),
    );
    const found = await runScoring(processes, createCoin(threshold));
    const selected = selectCertified(
      found.map(({ pValues }) => pValues[0]!),
      0.1,
    );
    wrong += Number(selected.some(Boolean));
  }
  expect(wrong / tables).toBeLessThan(0.1 + 3 * Math.sqrt(0.09 / tables));
});
