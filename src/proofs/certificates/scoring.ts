/** The fields of one text: one, or two for pairs. */
export type TextFields = readonly string[];

/** The scores of one text, one per label: logits or probabilities. */
export type LabelScores = ArrayLike<number>;

/** A model is a function from texts to scores, one row per text. It can report how many texts it has scored. */
export type ScoreTexts = (
  texts: readonly TextFields[],
  onScored?: (done: number) => void,
) => readonly LabelScores[] | Promise<readonly LabelScores[]>;

/**
 * A computation that yields texts and receives their scores. It knows no model, so that many of
 * them can share batches.
 */
export type ScoringProcess<Result> = Generator<readonly TextFields[], Result, readonly LabelScores[]>;

/**
 * Runs processes in step: the texts of all of them are scored by one call per round. The results
 * do not depend on which processes run together.
 */
export async function runScoring<Result>(
  processes: readonly ScoringProcess<Result>[],
  scoreTexts: ScoreTexts,
): Promise<Result[]> {
  const steps = processes.map((process) => process.next());
  for (;;) {
    const open = [...steps.keys()].filter((i) => !steps[i]!.done);
    if (open.length === 0) return steps.map(({ value }) => value as Result);
    const requests = open.map((i) => steps[i]!.value as readonly TextFields[]);
    const texts = requests.flat();
    const scores = texts.length === 0 ? [] : await scoreTexts(texts);
    if (scores.length !== texts.length)
      throw new RangeError(`expected one row of scores per text, received ${scores.length} for ${texts.length} texts`);
    let start = 0;
    for (const [k, i] of open.entries()) {
      const end = start + requests[k]!.length;
      steps[i] = processes[i]!.next(scores.slice(start, end));
      start = end;
    }
  }
}

/** The label with the largest score. Ties go to the smaller index, as in every vote. */
export function findLargestScore(scores: LabelScores): number {
  let best = 0;
  for (let i = 0; i < scores.length; i++) {
    const score = scores[i]!;
    if (Number.isNaN(score)) throw new RangeError(`expected a number as the score of label ${i}, received NaN`);
    if (score > scores[best]!) best = i;
  }
  return best;
}

/** Returns true if the two largest scores differ by less than a margin. */
export function isUndecided(scores: LabelScores, margin: number): boolean {
  if (margin <= 0) return false;
  const best = findLargestScore(scores);
  for (let i = 0; i < scores.length; i++) if (i !== best && scores[best]! - scores[i]! < margin) return true;
  return false;
}
