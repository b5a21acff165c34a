import { Rng } from "../../base/rng.js";
import type { Certificate, CertificateLine, LabeledText } from "./define-certificate.js";
import { runScoring, type ScoreTexts } from "./scoring.js";

/** Texts that are certified together, so that their batches are full. */
const textsPerRound = 32;

export interface CertifyInRoundsOptions {
  readonly seed: number;
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
  { seed, scoreTexts, from = 0, onProgress }: CertifyInRoundsOptions,
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
    const processes = round.map((text) => certificate.certify(text, new Rng(seed).fork("certify", text.id)));
    yield { start, lines: await runScoring(processes, scoreRound) };
    report(start + round.length);
  }
}
