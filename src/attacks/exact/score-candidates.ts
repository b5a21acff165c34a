import { createHash } from "node:crypto";
import type { EditedText } from "../edited-text.js";
import { logitMargin } from "../goals/score.js";
import { ScoreCache } from "../score-cache.js";
import { TextScorer } from "../text-scorer.js";
import type { PreparedInput, Victim } from "../victim.js";
import { type Combination, enumerateCombinations } from "./combinations.js";
import { type BlockLine, blockSize, type Substitutions, type TextLine } from "./proof-lines.js";

/** The texts of calls. The first calls are small, because successes come early. */
const [minCallSize, maxCallSize] = [256, 4096];

/** The single substitutions of a text in a list, which combinations index. */
export function listSubstitutions({ words }: Pick<TextLine, "words">): Substitutions {
  return words.flatMap(({ position, substitutes }) => substitutes.map((word) => [position, word] as const));
}

/** Applies substitutions to a text. */
export function applySubstitutions(original: EditedText, edits: Substitutions): EditedText {
  return edits.length === 0 ? original : original.replaceAll(new Map(edits));
}

/**
 * Computes the logit margins of texts. Nothing is remembered between two calls, so the batches and
 * the last bits of the scores depend on these texts only.
 */
export async function computeMargins(
  victim: Victim<PreparedInput>,
  texts: readonly EditedText[],
  label: number,
): Promise<Float32Array> {
  const entries = 4 * texts.length;
  const caches = { cache: new ScoreCache(victim.numLabels, { entries }) };
  const scorer = new TextScorer(victim, {
    ...caches,
    exactCache: new ScoreCache(victim.numLabels, { entries }),
  });
  const inputs = texts.map((text) => () => text.texts);
  const prepared = victim.prepareAll?.(inputs) ?? inputs.map((input) => victim.prepare(input));
  // Sorting is stable, so texts of equal length stay in their order.
  const order = [...prepared.keys()].sort((a, b) => prepared[a]!.length - prepared[b]!.length);
  const rows = await scorer.score(
    order.map((i) => scorer.createRequest(prepared[i]!, label, "decision")),
    () => undefined,
  );
  const margins = new Float32Array(texts.length);
  for (const [row, i] of order.entries()) margins[i] = logitMargin(scorer.toScore(rows[row]!), label);
  return margins;
}

/** The candidates of one level of a text. */
export interface Level {
  readonly original: EditedText;
  readonly label: number;
  readonly index: number;
  readonly changes: number;
  /** The substitutions, the most promising first. */
  readonly substitutions: Substitutions;
}

/** Enumerates the candidates of a level and scores them block by block. */
export class LevelScorer {
  readonly #combinations: Iterator<Combination>;
  #rank = 0;

  constructor(
    readonly victim: Victim<PreparedInput>,
    readonly level: Level,
  ) {
    const positions = level.substitutions.map(([position]) => position);
    this.#combinations = enumerateCombinations(positions, level.changes);
  }

  /** Passes over candidates whose scores are known. */
  skip(count: number): void {
    for (let i = 0; i < count; i++) this.#combinations.next();
    this.#rank += count;
  }

  /**
   * Scores the next block: up to `maxCount` candidates, or fewer if one of them fools the victim.
   * Returns null if no candidate is left. `allMargins` receives the margins.
   */
  async scoreBlock(
    maxCount: number,
    onCall: (count: number) => void,
    allMargins: number[] = [],
  ): Promise<BlockLine | null> {
    const { original, label, index, changes, substitutions } = this.level;
    const block = Math.floor(this.#rank / blockSize);
    const end = Math.min(this.#rank + maxCount, (block + 1) * blockSize);
    const hash = createHash("sha256");
    let [count, margin] = [0, Number.POSITIVE_INFINITY];
    let edits: Substitutions = [];
    while (this.#rank < end && margin >= 0) {
      const size = Math.min(end - this.#rank, maxCallSize, Math.max(minCallSize, this.#rank));
      const call: Substitutions[] = [];
      while (call.length < size) {
        const next = this.#combinations.next();
        if (next.done) break;
        call.push(next.value.map((each) => substitutions[each]!));
      }
      if (call.length === 0) break;
      const texts = call.map((each) => applySubstitutions(original, each));
      const margins = await computeMargins(this.victim, texts, label);
      hash.update(new Uint8Array(margins.buffer));
      for (const [i, each] of margins.entries()) {
        allMargins.push(each);
        if (each >= margin) continue;
        margin = each;
        edits = call[i]!;
      }
      count += call.length;
      this.#rank += call.length;
      onCall(call.length);
    }
    if (count === 0) return null;
    const sorted = edits.toSorted(([a], [b]) => a - b);
    return { kind: "block", index, changes, block, count, margin, edits: sorted, hash: hash.digest("hex") };
  }
}
