import { z } from "zod";
import { EditedText } from "../../attacks/edited-text.js";
import { type JournalHeader, readJournal } from "../../attacks/journal.js";
import type { AttackOutcome } from "../../attacks/result.js";
import type { AbleVictim } from "../../attacks/victim.js";
import { exists } from "../../base/files.js";
import { validate } from "../../base/validate.js";
import { describeDegeneratePredictions } from "../../evaluation/degenerate.js";
import { toPredictions } from "../../evaluation/metrics.js";
import { mcNemar, wilsonInterval } from "../../evaluation/statistics.js";
import { readProof } from "./proof-file.js";
import type { BlockLine, ProofLine, ResultLine, SubstitutionList } from "./proof-lines.js";
import { applySubstitutions } from "./score-candidates.js";

export interface ProofSummary extends ReturnType<typeof summarizeResults> {
  readonly examples: number;
  /** The results of attacks with at most `maxChanges` substitutions, compared with the exact result. */
  readonly attacks: Readonly<Record<string, ExactGap>>;
  readonly task: string;
  readonly split: string;
  /** SHA-256 of the examples. */
  readonly data: string;
  /** Texts that the enumeration scored. */
  readonly scored: number;
  /** The number of those that were scored again, because a rough score could not decide them. */
  readonly repeated: number;
  /** Path of the proof, for `temper verify`. */
  readonly proof: string;
}

interface ExactGap {
  readonly accuracyUnderAttack: number;
  /** The fraction of texts that the attack did not fool, although some substitutions do. */
  readonly gap: number;
  /** McNemar's exact p-value of the gap. */
  readonly p: number;
}

/** The results of each text of a proof, besides its summary. */
export interface ProofDetails {
  /** The reason why the model is degenerate, so that no number counts; null if it is not. */
  readonly degeneracy: string | null;
  readonly texts: readonly {
    readonly index: number;
    readonly id: string;
    /**
     * The smallest known number of substitutions that fools the model; null if none is known. It
     * is the smallest possible one if `provenUpTo` is one less.
     */
    readonly minChanges: number | null;
    /** No set of at most this many substitutions fools the model; -1 for a misclassified text. */
    readonly provenUpTo: number;
    /** The text that fools the model; null if none is known. */
    readonly finalTexts: readonly string[] | null;
  }[];
}

const optionsSchema = z.looseObject({
  maxChanges: z.int().min(0),
  attacks: z.array(z.looseObject({ name: z.string() })),
});
const settingsSchema = z.looseObject({ task: z.string(), split: z.string() });

/** Summarizes a proof and the attacks beside it from their lines; null if the proof is not complete. */
export async function summarizeProof(path: string): Promise<ProofSummary | null> {
  const { header, texts } = await readProof(path);
  const results = listLines(header, texts, "result");
  if (!results) return null;
  const blocks = [...texts.values()].flat().filter((line) => line.kind === "block");
  const { maxChanges, attacks } = validate(optionsSchema, header.options, `${path}:1: options`);
  const { task, split } = validate(settingsSchema, header.settings, `${path}:1: settings`);
  const gaps: [string, ExactGap][] = [];
  for (const { name } of maxChanges === 0 ? [] : attacks) {
    // The proof itself holds without the journals of the attacks.
    if (!(await exists(getAttackPath(path, name)))) continue;
    gaps.push([name, measureGap(await readFoundTexts(path, name), results)]);
  }
  return {
    examples: results.length,
    ...summarizeResults(results, maxChanges),
    attacks: Object.fromEntries(gaps),
    task,
    split,
    data: header.hashes.data!,
    scored: results.reduce((sum, { scored }) => sum + scored, 0),
    repeated: blocks.reduce((sum, { repeated }: BlockLine) => sum + repeated, 0),
    proof: path,
  };
}

/** Describes the texts of a complete proof. The model says how it classifies them. */
export async function describeProof(
  path: string,
  victim: AbleVictim,
  labels: readonly string[],
): Promise<ProofDetails> {
  const { header, texts } = await readProof(path);
  const [starts, results] = [listLines(header, texts, "text")!, listLines(header, texts, "result")!];
  const answers = await victim.predict(victim.prepare(starts.map((start) => start.texts)));
  const rows = answers.map(({ probabilities }) => probabilities);
  const gold = starts.map(({ label }) => label);
  const names = Array.from(rows[0] ?? [], (_, label) => labels[label] ?? `label ${label}`);
  return {
    degeneracy: describeDegeneratePredictions(toPredictions(rows), gold, names),
    texts: results.map(({ index, minChanges, provenUpTo, edits }, i) => {
      const { id, texts: fields } = starts[i]!;
      const finalTexts = edits && applySubstitutions(EditedText.create(fields, victim.findWords), edits).texts;
      return { index, id, minChanges, provenUpTo, finalTexts };
    }),
  };
}

/**
 * Reads how many substitutions provably cannot fool each text, by its ID: -1 for a misclassified one. Null if the proof is
 * not complete.
 */
export async function readProvenChanges(
  path: string,
): Promise<{ readonly maxChanges: number; readonly provenUpTo: ReadonlyMap<string, number> } | null> {
  const { header, texts } = await readProof(path);
  const [starts, results] = [listLines(header, texts, "text"), listLines(header, texts, "result")];
  if (!starts || !results) return null;
  const { maxChanges } = validate(optionsSchema, header.options, `${path}:1: options`);
  return { maxChanges, provenUpTo: new Map(results.map(({ provenUpTo }, i) => [starts[i]!.id, provenUpTo])) };
}

/** The first or the last lines of all texts; null if one is missing. */
function listLines<Kind extends "text" | "result">(
  { examples }: JournalHeader,
  texts: ReadonlyMap<number, readonly ProofLine[]>,
  kind: Kind,
): Extract<ProofLine, { kind: Kind }>[] | null {
  const found = Array.from({ length: examples }, (_, index) => texts.get(index)?.find((line) => line.kind === kind));
  return found.every((line) => line !== undefined) ? (found as Extract<ProofLine, { kind: Kind }>[]) : null;
}

/** Robust accuracy at 0 … `maxChanges` substitutions. */
export function summarizeResults(
  results: readonly Pick<ResultLine, "provenUpTo" | "minChanges">[],
  maxChanges: number,
) {
  const count = results.length;
  const levels = Array.from({ length: maxChanges + 1 }, (_, changes) => ({
    changes,
    proven: results.filter(({ provenUpTo }) => provenUpTo >= changes).length,
    unbroken: results.filter(({ minChanges }) => minChanges === null || minChanges > changes).length,
  }));
  const first = levels.map(
    ({ changes }) => results.filter((each) => each.minChanges === changes && each.provenUpTo === changes - 1).length,
  );
  const robust = levels.at(-1)!.proven;
  return {
    /** The fraction of texts that no set of at most so many substitutions fools, and texts that the budget left open. */
    exact: levels.map(({ changes, proven, unbroken }) => {
      return { changes, accuracy: proven / count, interval: wilsonInterval(proven, count), open: unbroken - proven };
    }),
    /** Robust accuracy is between what is proven and what no attack has broken. */
    bracket: levels.map(({ changes, proven, unbroken }) => ({
      changes,
      proven: proven / count,
      provenInterval: wilsonInterval(proven, count),
      unbroken: unbroken / count,
      unbrokenInterval: wilsonInterval(unbroken, count),
    })),
    /** Texts by the smallest number of substitutions that fools the model, where it is exact: 0 is misclassified. */
    distribution: { exact: first, robust, open: count - robust - first.reduce((sum, each) => sum + each, 0) },
  };
}

/** The finding of an attack on a text: the substitutions, if it fooled the model. */
export interface FoundText {
  readonly outcome: AttackOutcome;
  readonly edits: SubstitutionList;
}

/** The journal of an attack beside a proof. */
export function getAttackPath(proofPath: string, attack: string): string {
  return proofPath.replace(/\.jsonl$/, `-${attack}.jsonl`);
}

export async function readFoundTexts(proofPath: string, attack: string): Promise<FoundText[]> {
  const found: FoundText[] = [];
  for await (const { result } of readJournal(getAttackPath(proofPath, attack)))
    found.push({
      outcome: result.outcome,
      edits: result.edits.map(({ position, to }) => [position, to] as const),
    });
  return found;
}

/** Compares an attack with the exact result. */
function measureGap(found: readonly FoundText[], exactResults: readonly ResultLine[]): ExactGap {
  const count = found.length;
  const isRobust = ({ outcome }: FoundText): boolean => outcome === "failed";
  const missed = found.filter((text, i) => isRobust(text) && exactResults[i]?.minChanges !== null).length;
  return {
    accuracyUnderAttack: found.filter(isRobust).length / count,
    gap: missed / count,
    // No attack fools a text that is proven robust.
    p: mcNemar(missed, 0).exact,
  };
}
