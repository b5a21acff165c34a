import { formatPercent } from "../format.js";
import { readResults } from "../runs/results.js";
import { getRunFolder } from "../sweeps/plan.js";
import { readRunProgress } from "../sweeps/progress.js";
import type { SweepCallbacks } from "../sweeps/run-local.js";
import { formatWorkItem, type Stage, type WorkItem } from "../sweeps/work-item.js";
import type { Io } from "./io.js";
import { createProgress, type Progress, type ProgressDetails } from "./progress.js";

const stageLabels: Readonly<Record<Stage, readonly [string, string]>> = {
  train: ["train", "runs"],
  measure: ["measure", "runs"],
  figures: ["draw", "figures"],
};

/** Runs that stand in the progress line by name. */
const maxNamedRuns = 2;
const refreshMilliseconds = 1000;

/** One progress line over all units of a sweep: what is done, what runs and how far it is. */
export function createSweepProgress(io: Io, out: string, quiet: boolean): SweepCallbacks & { end(): void } {
  let progress: Progress | undefined;
  let done = 0;
  const running = new Map<string, WorkItem>();
  const show = async (): Promise<void> => {
    const parts = await Promise.all([...running.values()].map((unit) => readItemProgress(out, unit)));
    const names = parts.slice(0, maxNamedRuns).map(({ name, text }) => `${name}${text}`);
    const more = parts.length > maxNamedRuns ? ` and ${parts.length - maxNamedRuns} more` : "";
    const facts: ProgressDetails = parts.length > 0 ? { running: names.join(", ") + more } : {};
    progress?.update(done + parts.reduce((sum, { share }) => sum + share, 0), facts);
  };
  const timer = setInterval(() => void show(), refreshMilliseconds).unref();
  return {
    onStageStart(stage, units, before) {
      progress?.end();
      const [label, unit] = stageLabels[stage];
      done = before;
      progress = createProgress({ label, total: units.length, unit, start: before, quiet, stream: io.stderr });
      if (before > 0 && before < units.length)
        progress.printLine(`${before} of ${units.length} ${unit} were done before`);
    },
    onItemStart(unit) {
      running.set(formatWorkItem(unit), unit);
      void show();
    },
    onItemEnd(unit, end) {
      running.delete(formatWorkItem(unit));
      if (end.state === "done") done++;
      if (end.state === "failed") progress?.printLine(`${formatWorkItem(unit)} failed: ${end.error}`);
      if (end.state === "done" && unit.kind === "train")
        void printScore(out, unit.run, (text) => progress?.printLine(text));
      void show();
    },
    onWarning(message) {
      if (progress) progress.printLine(message);
      else if (!quiet) io.stderr.write(`${message}\n`);
    },
    end() {
      clearInterval(timer);
      progress?.end();
    },
  };
}

async function printScore(out: string, run: string, note: (text: string) => void): Promise<void> {
  const results = await readResults(getRunFolder(out, run)).catch(() => null);
  if (results) note(`${run}: accuracy ${formatPercent(results.test.accuracy)}`);
}

async function readItemProgress(out: string, unit: WorkItem): Promise<{ name: string; text: string; share: number }> {
  const progress = unit.kind === "train" ? await readRunProgress(getRunFolder(out, unit.run)) : null;
  if (!progress || progress.steps === 0) return { name: formatWorkItem(unit), text: "", share: 0 };
  const share = progress.step / progress.steps;
  return { name: formatWorkItem(unit), text: ` ${formatPercent(share, 0)}`, share: Math.min(1, share) };
}
