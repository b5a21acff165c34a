import { z } from "zod";
import { formatCount, formatInterval, formatPercent } from "../base/format.js";
import { readJsonFiles, writeJson } from "../base/read-json.js";
import { intervalSchema } from "../evaluation/statistics.js";

const number = z.number();
const count = z.int().min(0);

/** PROOF.report.json: the result of `exact`, beside its proof. */
export const exactReportSchema = z.object({
  examples: count,
  /** The reason why the model is degenerate, so that no number counts; null if it is not. */
  degeneracy: z.string().nullable(),
  exact: z.array(
    z.object({
      changes: count,
      /** The fraction of texts of which it is proven that no set of at most so many substitutions fools. */
      accuracy: number,
      interval: intervalSchema,
      /** Texts that the budget left open: neither fooled nor proven. */
      open: count,
    }),
  ),
  texts: z.array(
    z.object({
      index: count,
      id: z.string(),
      /**
       * The smallest known number of substitutions that fools the model; null if none is known. It
       * is the smallest possible one if `provenUpTo` is one less.
       */
      minChanges: count.nullable(),
      /** No set of at most this many substitutions fools the model; -1 for a misclassified text. */
      provenUpTo: z.int().min(-1),
      /** The text that fools the model; null if none is known. */
      finalTexts: z.array(z.string()).readonly().nullable(),
    }),
  ),
  /** Robust accuracy is between what is proven and what no attack has broken. */
  bracket: z.array(
    z.object({
      changes: count,
      proven: number,
      provenInterval: intervalSchema,
      unbroken: number,
      unbrokenInterval: intervalSchema,
    }),
  ),
  /** Texts by the smallest number of substitutions that fools the model. */
  distribution: z.object({ exact: z.array(count), robust: count, open: count }),
  /** The results of attacks with at most `maxChanges` substitutions, compared with the exact result. */
  attacks: z.record(
    z.string(),
    z.object({
      accuracyUnderAttack: number,
      /** The fraction of texts that the attack did not fool, although some substitutions do. */
      gap: number,
      /** McNemar's exact p-value of the gap. */
      p: number,
    }),
  ),
  task: z.string(),
  split: z.string(),
  /** SHA-256 of the examples. */
  data: z.string(),
  /** Texts that the enumeration scored. */
  scored: count,
  /** The number of them that were scored again, because a rough score could not decide them. */
  repeated: count,
  /** Texts per second of this call; null if the proof was complete. */
  textsPerSecond: number.nullable(),
  /** Path of the proof, for `temper verify`. */
  proof: z.string(),
});

/**
 * Exact robust accuracy by number of substitutions.
 *
 *     const { exact: levels }: ExactReport = await exact({ model: "runs/rose", maxChanges: 2 });
 */
export type ExactReport = z.output<typeof exactReportSchema>;

const ending = ".report.json";

export async function writeExactReport(report: ExactReport): Promise<void> {
  await writeJson(report.proof.replace(/\.jsonl$/, ending), report);
}

/** Reads what `exact` found, in the order of the names of the proofs. */
export async function readExactReports(folder: string): Promise<ExactReport[]> {
  return readJsonFiles(folder, ending, exactReportSchema, "exact");
}

/** Tabulates how accuracy falls with the number of substitutions, from 0 to the largest one that was asked for. */
export function tabulateExact({ bracket, distribution, exact }: ExactReport): { head: string[]; rows: string[][] } {
  const rows = bracket.map(({ changes, proven, provenInterval, unbroken, unbrokenInterval }) => [
    formatCount(changes),
    formatCount(distribution.exact[changes] ?? 0),
    formatPercent(proven),
    formatInterval(provenInterval.low, provenInterval.high),
    formatPercent(unbroken),
    formatInterval(unbrokenInterval.low, unbrokenInterval.high),
    formatCount(exact[changes]!.open),
  ]);
  return { head: ["substitutions", "first fooled", "exact accuracy", "95% CI", "not broken", "95% CI", "open"], rows };
}
