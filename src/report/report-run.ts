import { stat } from "node:fs/promises";
import { type AttackFolder, listAttackWarnings } from "../runs/attack-folder.js";
import { readCertificateReports } from "../runs/certificate-folder.js";
import { summarizeProofs } from "../runs/exact-folder.js";
import { listResultWarnings } from "../runs/result-warnings.js";
import type { Results } from "../runs/results.js";
import type { RunFolder } from "../runs/run-folder.js";
import { readDegeneracy, readMetrics } from "../runs/run-metrics.js";

export type ReportRun = Awaited<ReturnType<typeof readReportRun>>;

export async function readReportRun(run: RunFolder) {
  const results = await run.results();
  const attacks = await run.attacks();
  const labels = await run.labels();
  return {
    run,
    /** When its training started, in ISO format. */
    started: (await stat(run.path("environment"))).mtime.toISOString(),
    /** Null before the run has finished. */
    results,
    configText: await run.configText(),
    // Only folders with an environment are runs.
    environment: (await run.environment())!,
    failure: results ? null : ((await run.status())?.failure ?? null),
    events: await run.events(),
    /** Time of all optimizer steps. */
    seconds: (await run.timings()).reduce((sum, { seconds }) => sum + seconds, 0),
    labels,
    metrics: await readMetrics(run),
    degeneracy: await readDegeneracy(run),
    attacks,
    warnings: listWarnings(run, results, attacks),
    figures: await run.figures(),
    certificates: await readCertificateReports(run.path("certificates"), labels),
    exact: await summarizeProofs(run.path("exact")),
  };
}

/**
 * The warnings of training, the checks of the results and of all journals together, and those of
 * the last `attack` call, which knows more facts.
 */
function listWarnings(run: RunFolder, results: Results | null, attacks: AttackFolder): readonly string[] {
  const [journal] = attacks.journals.values();
  const tokenization = journal?.header.settings.tokenization;
  const attacked = listAttackWarnings(attacks, {
    labels: results?.test.labels ?? [],
    trainedTokenization: run.config.tokenization,
    ...(typeof tokenization === "string" && { tokenization }),
  });
  const own = results ? [...results.warnings, ...listResultWarnings(results.test)] : [];
  return [...new Set([...own, ...attacked.map(({ message }) => message)])];
}
