import { whiteBoxAttacks } from "../attacks/load-attack.js";
import { runSanityChecks, type SanityWarning } from "../evaluation/sanity-checks.js";
import type { AttackFolder } from "../runs/attack-folder.js";
import type { Environment } from "../runs/environment.js";
import type { Results } from "../runs/results.js";
import type { Run, RunEvent, SavedFigure } from "../runs/run.js";
import type { MetricValue } from "../runs/run-metrics.js";

/** A run with everything that the report shows of it. */
export interface ReportRun {
  readonly run: Run;
  /** Null before the run has finished. */
  readonly results: Results | null;
  readonly configText: string;
  readonly environment: Environment;
  readonly failure: string | null;
  readonly events: readonly RunEvent[];
  /** Time of all optimizer steps. */
  readonly seconds: number;
  readonly labels: readonly string[];
  readonly metrics: ReadonlyMap<string, MetricValue>;
  readonly attacks: AttackFolder;
  readonly warnings: readonly SanityWarning[];
  readonly figures: readonly SavedFigure[];
}

export async function readReportRun(run: Run): Promise<ReportRun> {
  const [results, configText, environment, status, events, timings, labels, metrics, attacks, figures] =
    await Promise.all([
      run.results(),
      run.configText(),
      run.environment(),
      run.status(),
      run.events(),
      run.timings(),
      run.labels(),
      run.metrics(),
      run.attacks(),
      run.figures(),
    ]);
  return {
    run,
    results,
    configText,
    // Only folders with an environment are runs.
    environment: environment!,
    failure: results ? null : (status?.failure ?? null),
    events,
    seconds: timings.reduce((sum, { seconds }) => sum + seconds, 0),
    labels,
    metrics,
    attacks,
    warnings: collectWarnings(run, attacks),
    figures,
  };
}

/**
 * The sanity checks of all journals together, and those of the last `attack` call, which knows more
 * facts.
 */
function collectWarnings({ config }: Run, { journals, summary, report }: AttackFolder): SanityWarning[] {
  const [first] = journals.values();
  const tokenization = first?.header.settings.tokenization;
  const facts = {
    trainedTokenization: config.tokenization,
    whiteBox: [...journals.keys()].filter((name) => whiteBoxAttacks.has(name)),
    ...(typeof tokenization === "string" && { tokenization }),
  };
  const all = [...(summary ? runSanityChecks(summary, facts) : []), ...(report?.sanity ?? [])];
  return [...new Map(all.map((warning) => [warning.message, warning])).values()];
}
