import { stat } from "node:fs/promises";
import type { SanityWarning } from "../evaluation/sanity-checks.js";
import { type AttackFolder, listAttackWarnings } from "../runs/attack-folder.js";
import { summarizeProofs } from "../runs/exact-folder.js";
import { listResultWarnings } from "../runs/result-warnings.js";
import type { RunFolder } from "../runs/run-folder.js";
import { readDegeneracy, readMetrics } from "../runs/run-metrics.js";
import { readRunCertificates } from "./certificates.js";

/** A run with everything that the report shows of it. */
export type ReportRun = Awaited<ReturnType<typeof readReportRun>>;

export async function readReportRun(run: RunFolder) {
  const [results, status, timings, attacks] = await Promise.all([
    run.results(),
    run.status(),
    run.timings(),
    run.attacks(),
  ]);
  return {
    run,
    /** When its training started, in ISO format. */
    started: (await stat(run.path("environment"))).mtime.toISOString(),
    /** Null before the run has finished. */
    results,
    configText: await run.configText(),
    // Only folders with an environment are runs.
    environment: (await run.environment())!,
    failure: results ? null : (status?.failure ?? null),
    events: await run.events(),
    /** Time of all optimizer steps. */
    seconds: timings.reduce((sum, { seconds }) => sum + seconds, 0),
    labels: await run.labels(),
    metrics: await readMetrics(run),
    degeneracy: await readDegeneracy(run),
    attacks,
    warnings: await collectWarnings(run, attacks),
    figures: await run.figures(),
    certificates: await readRunCertificates(run, attacks),
    exact: await summarizeProofs(run.path("exact")),
  };
}

/**
 * The warnings of training, the checks of the run's results, those of all journals together, and those of the last `attack`
 * call, which knows more facts.
 */
async function collectWarnings(run: RunFolder, attacks: AttackFolder): Promise<SanityWarning[]> {
  const { journals } = attacks;
  const [first] = journals.values();
  const tokenization = first?.header.settings.tokenization;
  const results = await run.results();
  const facts = {
    labels: results?.test.labels ?? [],
    trainedTokenization: run.config.tokenization,
    ...(typeof tokenization === "string" && { tokenization }),
  };
  const own = (results ? [...results.warnings, ...listResultWarnings(results.test)] : []).map((message) => ({
    name: "results",
    message,
  }));
  const all = [...own, ...listAttackWarnings(attacks, facts)];
  return [...new Map(all.map((warning) => [warning.message, warning])).values()];
}
