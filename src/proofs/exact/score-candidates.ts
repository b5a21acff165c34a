import { createHash } from "node:crypto";
import type { EditedText } from "../../attacks/edited-text.js";
import { type AbleVictim, prepareTexts, type Victim } from "../../attacks/victim.js";
import { Rng } from "../../base/rng.js";
import type { Accuracy, PreparedText } from "../../models/inference/predictor.js";
import { logitMargin } from "../../models/inference/score.js";
import { type Combination, enumerateCombinations } from "./combinations.js";
import { type BlockLine, blockSize, type SubstitutionList, type TextLine } from "./proof-lines.js";
import type { WordSubstitutes } from "./substitution-space.js";

/** The texts of the first call of a level. It is small, because successes come early. */
const minCallSize = 256;

/** The single substitutions of a text in a list, which combinations index. */
export function listSubstitutions({ words }: Pick<TextLine, "words">): SubstitutionList {
  return words.flatMap(({ position, substitutes }) => substitutes.map((word) => [position, word] as const));
}

export function applySubstitutions(original: EditedText, edits: SubstitutionList): EditedText {
  return edits.length === 0 ? original : original.replaceAll(new Map(edits));
}

interface Margins {
  readonly margins: Float32Array;
  /** Texts that were scored again, because a rough score could not decide them. */
  readonly repeated: number;
}

/** Computes the logit margins of texts, which depend on these texts only. */
export async function computeMargins(
  victim: Victim,
  texts: readonly EditedText[],
  label: number,
  accuracy: Accuracy = { label },
): Promise<Float32Array> {
  return (await scoreInputs(victim, prepareTexts(victim, texts), label, accuracy)).margins;
}

/** Texts on which the error of rough scores is measured. */
const maxMeasured = 2048;

/**
 * The logit margin below which rough scores of candidates are computed again: twice the largest
 * error on random candidates. It is rounded up to two digits, because the last bits of the
 * error may differ between calls that continue one proof.
 */
export async function measureDecidedMargin(
  victim: Victim,
  texts: readonly {
    readonly original: EditedText;
    readonly words: readonly WordSubstitutes[];
    readonly label: number;
  }[],
  maxChanges: number,
): Promise<number> {
  const rng = new Rng(0).fork("error of low precision");
  const byLabel = new Map<number, EditedText[]>();
  const stride = Math.ceil(texts.length / maxMeasured);
  for (let i = 0; i < texts.length; i += stride) {
    const { original, words, label } = texts[i]!;
    const all = listSubstitutions({ words });
    const count = Math.min(1 + all.length, Math.floor((maxMeasured * stride) / texts.length));
    const candidates = Array.from({ length: count }, (_, at) => {
      const changes = all.length > 0 ? at % (maxChanges + 1) : 0;
      // Of two substitutions of one word, the last one counts.
      const drawn = Array.from({ length: changes }, () => all[rng.integer(all.length)]!);
      return applySubstitutions(original, [...new Map(drawn)]);
    });
    byLabel.set(label, [...(byLabel.get(label) ?? []), ...candidates]);
  }
  let largest = 0;
  for (const [label, candidates] of byLabel) {
    const margins = await computeMargins(victim, candidates, label, "rough");
    for (const [i, margin] of (await computeMargins(victim, candidates, label, "exact")).entries())
      largest = Math.max(largest, Math.abs(margin - margins[i]!));
  }
  const unit = 10 ** (Math.floor(Math.log10(2 * largest)) - 1);
  return largest > 0 ? Number((Math.ceil((2 * largest) / unit) * unit).toPrecision(2)) : 0;
}

async function scoreInputs(
  victim: Victim,
  inputs: readonly PreparedText[],
  label: number,
  accuracy: Accuracy = { label },
): Promise<Margins> {
  let repeated = 0;
  const scores = await victim.predict(inputs, {
    getAccuracy: () => accuracy,
    onRepeat: (count) => {
      repeated = count;
    },
  });
  return { margins: Float32Array.from(scores, (score) => logitMargin(score, label)), repeated };
}

export interface Level {
  readonly original: EditedText;
  readonly label: number;
  readonly index: number;
  readonly changes: number;
  /** The substitutions, the most promising first. */
  readonly substitutions: SubstitutionList;
  /** The first candidate to score. Default: 0. */
  readonly start?: number;
  /** The number of candidates up to which the level is scored. */
  readonly end: number;
}

/** Candidates that the victim scores at once. */
interface Call {
  readonly combinations: readonly Combination[];
  readonly answer: Promise<Margins>;
}

/**
 * Enumerates the candidates of a level and scores them block by block. Which texts a call has
 * depends on their ranks only, so a block has the same scores whoever computes it.
 */
export class LevelScorer {
  readonly #combinations: Iterator<Combination>;
  readonly #maxCallSize: number;
  /** Candidates of finished calls, and of all calls that were started. */
  #done: number;
  #started: number;
  /** The next call, which the victim answers while the host prepares the one after it. */
  #next: Call | null = null;
  /** True if no further block will be scored. */
  #isOver = false;

  constructor(
    readonly victim: AbleVictim,
    readonly level: Level,
  ) {
    const { changes, substitutions, start = 0 } = level;
    const positions = substitutions.map(([position]) => position);
    this.#combinations = enumerateCombinations(positions, changes);
    for (let i = 0; i < start; i++) this.#combinations.next();
    [this.#done, this.#started] = [start, start];
    this.#maxCallSize = Math.max(minCallSize, Math.floor(victim.callLimits.maxTexts / 2));
  }

  /**
   * Scores the next block, or fewer candidates if one of them fools the victim. Returns null if no
   * candidate is left. `allMargins` receives the margins.
   */
  async scoreBlock(onCall: (count: number) => void, allMargins?: number[]): Promise<BlockLine | null> {
    try {
      return await this.#scoreBlock(onCall, allMargins);
    } finally {
      // After a failure or success, nobody reads the call that was started ahead.
      if (this.#isOver) await this.#next?.answer.catch(() => undefined);
    }
  }

  async #scoreBlock(onCall: (count: number) => void, allMargins?: number[]): Promise<BlockLine | null> {
    this.#isOver = true;
    const { index, changes } = this.level;
    const block = Math.floor(this.#done / blockSize);
    const end = (block + 1) * blockSize;
    const hash = createHash("sha256");
    let [count, margin, repeated] = [0, Number.POSITIVE_INFINITY, 0];
    let best: Combination = [];
    while (this.#done < end && margin >= 0) {
      const call = this.#next ?? this.#startCall();
      if (!call) break;
      this.#next = this.victim.callLimits.canOverlap ? this.#startCall() : null;
      const found = await call.answer;
      hash.update(new Uint8Array(found.margins.buffer));
      for (const [i, each] of found.margins.entries()) {
        allMargins?.push(each);
        if (each >= margin) continue;
        margin = each;
        best = call.combinations[i]!;
      }
      repeated += found.repeated;
      count += found.margins.length;
      this.#done += found.margins.length;
      onCall(found.margins.length);
    }
    this.#isOver = margin < 0;
    if (count === 0) return null;
    const edits = this.#listEdits(best).toSorted(([a], [b]) => a - b);
    return { kind: "block", index, changes, block, count, margin, edits, repeated, hash: hash.digest("hex") };
  }

  #startCall(): Call | null {
    const { original, label, end } = this.level;
    const rank = this.#started;
    const blockEnd = Math.min(end, (Math.floor(rank / blockSize) + 1) * blockSize);
    const size = Math.min(blockEnd - rank, this.#maxCallSize, Math.max(minCallSize, 3 * rank));
    const combinations: Combination[] = [];
    while (combinations.length < size) {
      const next = this.#combinations.next();
      if (next.done) break;
      combinations.push(next.value);
    }
    if (combinations.length === 0) return null;
    this.#started += combinations.length;
    const texts = combinations.map((each) => applySubstitutions(original, this.#listEdits(each)));
    const answer = scoreInputs(this.victim, prepareTexts(this.victim, texts), label);
    // The error is reported when the call is read. Until then nobody awaits the promise.
    answer.catch(() => undefined);
    return { combinations, answer };
  }

  #listEdits(combination: Combination): SubstitutionList {
    return combination.map((each) => this.level.substitutions[each]!);
  }
}
