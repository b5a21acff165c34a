import {
  type CertificateKind,
  type CertificateLine,
  createTextRng,
  type LabeledText,
} from "../../proofs/certificates/kinds.js";
import { runScoring, type ScoreTexts } from "../../proofs/certificates/scoring.js";

/** Texts that are certified together, so that their batches are full. */
const textsPerRound = 32;

/** Some texts that were certified together. */
export interface CertifiedRound {
  /** The index of the first text. */
  readonly start: number;
  readonly lines: readonly CertificateLine[];
}

/**
 * Certifies texts in rounds, from the round that has the text `from`. Rounds always start at the
 * same texts, so that the batches of a resumed or repeated run are those of an undisturbed one.
 */
export async function* certifyInRounds(
  certificate: CertificateKind,
  texts: readonly LabeledText[],
  { seed, scoreTexts, from = 0 }: { readonly seed: number; readonly scoreTexts: ScoreTexts; readonly from?: number },
): AsyncGenerator<CertifiedRound> {
  for (let start = from - (from % textsPerRound); start < texts.length; start += textsPerRound) {
    const round = texts.slice(start, start + textsPerRound);
    const processes = round.map((text) => certificate.certify(text, createTextRng(seed, text.id)));
    yield { start, lines: await runScoring(processes, scoreTexts) };
  }
}
