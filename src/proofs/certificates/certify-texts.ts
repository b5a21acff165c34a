import { Rng } from "../../base/rng.js";
import { describeDifference, findDifference } from "../../base/verification.js";
import type { Certificate, CertificateLine, LabeledText } from "./define-certificate.js";
import { type LabelScores, runScoring, type ScoreTexts, type TextFields } from "./scoring.js";

/** Texts that are certified together, so that their batches are full. */
const textsPerRound = 32;

export interface CertifyInRoundsOptions {
  readonly scoreTexts: ScoreTexts;
  /** Index of the first text. */
  readonly from?: number;
  /** Called with the number of finished texts, also within a round. An error ends the work. */
  onProgress?(done: number): void;
}

/**
 * Certifies texts in rounds, from the round that has the text `from`. Rounds always start at the
 * same texts, so that the batches of a resumed or repeated run are those of an undisturbed one.
 * `start` is the index of the first text of a round.
 */
export async function* certifyInRounds(
  certificate: Certificate,
  texts: readonly LabeledText[],
  { scoreTexts, from = 0, onProgress }: CertifyInRoundsOptions,
): AsyncGenerator<{ readonly start: number; readonly lines: readonly CertificateLine[] }> {
  for (let start = from - (from % textsPerRound); start < texts.length; start += textsPerRound) {
    const round = texts.slice(start, start + textsPerRound);
    let done = from;
    const report = (count: number): void => {
      done = Math.max(done, count);
      onProgress?.(done);
    };
    // A text can have hundreds of parts to score, so a round can take minutes.
    const scoreRound: ScoreTexts = (parts) =>
      scoreTexts(parts, (scored) => report(start + Math.floor((round.length * scored) / parts.length)));
    const processes = round.map((text) => certificate.certify(text));
    yield { start, lines: await runScoring(processes, scoreRound) };
    report(start + round.length);
  }
}

/** A line of a journal, after its text was certified again. */
export interface CheckedLine {
  readonly index: number;
  /** The reason why the line does not hold; null if it does. */
  readonly error: string | null;
  /** True if a near tie decides what the line certifies, and here it certifies something else. */
  readonly isNearTie: boolean;
}

/**
 * Certifies the texts of lines again and compares every key. Two hosts round scores differently, so
 * a line that differs is also computed with scores that are moved by their rounding. It holds if
 * each of its values lies between those of these computations.
 */
export async function* checkInRounds(
  certificate: Certificate,
  recorded: readonly CertificateLine[],
  options: Omit<CertifyInRoundsOptions, "from">,
): AsyncGenerator<CheckedLine> {
  const known = new Map<string, LabelScores>();
  const getKey = (texts: TextFields): string => JSON.stringify(texts);
  const scoreAll: ScoreTexts = async (texts, onScored) => {
    const rows = await options.scoreTexts(texts, onScored);
    for (const [i, row] of rows.entries()) known.set(getKey(texts[i]!), row);
    return rows;
  };
  const scoreOnce = async (texts: readonly TextFields[]): Promise<LabelScores[]> => {
    const missing = texts.filter((each) => !known.has(getKey(each)));
    if (missing.length > 0) await scoreAll(missing);
    return texts.map((each) => known.get(getKey(each))!);
  };
  const check = async (line: CertificateLine, computed: CertificateLine): Promise<Omit<CheckedLine, "index">> => {
    if (!findDifference(line, [computed])) return { error: null, isNearTie: false };
    const possible = [computed];
    for (const moveScores of listRoundings(certificate.options.minMargin)) {
      const scoreMoved: ScoreTexts = async (texts) => (await scoreOnce(texts)).map(moveScores);
      possible.push(...(await runScoring([certificate.certify(line)], scoreMoved)));
    }
    const found = findDifference(line, possible);
    if (found) return { error: describeDifference(found, "the model"), isNearTie: false };
    const [claimed, confirmed] = [line, computed].map((each) => certificate.summarize([each]));
    return { error: null, isNearTie: findDifference(claimed, [confirmed]) !== null };
  };
  for await (const { start, lines } of certifyInRounds(certificate, recorded, { ...options, scoreTexts: scoreAll })) {
    for (const [i, computed] of lines.entries())
      yield { index: start + i, ...(await check(recorded[start + i]!, computed)) };
    known.clear();
  }
}

/** Pairs of roundings that move scores by the same distances in opposite directions. */
const roundingPairs = 8;

/**
 * Functions that move probabilities as far as two computations of them may differ: by `minMargin`
 * near 1/2, which is 2 `minMargin` for each logit.
 */
function listRoundings(minMargin: number): ((row: LabelScores) => number[])[] {
  return Array.from({ length: roundingPairs }, (_, pair) =>
    [1, -1].map((sign) => {
      const rng = new Rng(0).fork("rounding", pair);
      return (row: LabelScores): number[] => {
        const weights = Array.from(row, (value) => value * Math.exp(2 * minMargin * sign * (2 * rng.next() - 1)));
        const sum = weights.reduce((total, weight) => total + weight, 0);
        return weights.map((weight) => weight / sum);
      };
    }),
  ).flat();
}
