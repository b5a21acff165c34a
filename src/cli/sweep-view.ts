import { formatShare } from "../format.js";
import { readResults } from "../runs/results.js";
import type { SweepWatcher } from "../sweeps/local.js";
import { runFolder } from "../sweeps/plan.js";
import { progressOf } from "../sweeps/progress.js";
import { nameOf, type Stage, type Unit } from "../sweeps/unit.js";
import type { Io } from "./io.js";
import { type Facts, openProgress, type Progress } from "./progress.js";

const labels: Readonly<Record<Stage, readonly [string, string]>> = {
  train: ["train", "runs"],
  measure: ["measure", "runs"],
  figures: ["draw", "figures"],
};

/** Runs that stand in the progress line by name. */
const namedRuns = 2;
const refreshMilliseconds = 1000;

/** One progress line over all units of a sweep: what is done, what runs and how far it is. */
export function watchSweep(io: Io, out: string, quiet: boolean): SweepWatcher & { end(): void } {
  let progress: Progress | undefined;
  let done = 0;
  const running = new Map<string, Unit>();
  const show = async (): Promise<void> => {
    const parts = await Promise.all([...running.values()].map((unit) => shareOf(out, unit)));
    const names = parts.slice(0, namedRuns).map(({ name, text }) => `${name}${text}`);
    const more = parts.length > namedRuns ? ` and ${parts.length - namedRuns} more` : "";
    const facts: Facts = parts.length > 0 ? { running: names.join(", ") + more } : {};
    progress?.update(done + parts.reduce((sum, { share }) => sum + share, 0), facts);
  };
  const timer = setInterval(() => void show(), refreshMilliseconds).unref();
  return {
    onStage(stage, units, before) {
      progress?.end();
      const [label, unit] = labels[stage];
      done = before;
      progress = openProgress({ label, total: units.length, unit, start: before, quiet, stream: io.stderr });
      if (before > 0 && before < units.length) progress.note(`${before} of ${units.length} ${unit} were done before`);
    },
    onBegin(unit) {
      running.set(nameOf(unit), unit);
      void show();
    },
    onEnd(unit, end) {
      running.delete(nameOf(unit));
      if (end.state === "done") done++;
      if (end.state === "failed") progress?.note(`${nameOf(unit)} failed: ${end.error}`);
      if (end.state === "done" && unit.kind === "train") void tellScore(out, unit.run, (text) => progress?.note(text));
      void show();
    },
    onNotice(message) {
      if (progress) progress.note(message);
      else if (!quiet) io.stderr.write(`${message}\n`);
    },
    end() {
      clearInterval(timer);
      progress?.end();
    },
  };
}

async function tellScore(out: string, run: string, note: (text: string) => void): Promise<void> {
  const results = await readResults(runFolder(out, run)).catch(() => null);
  if (results) note(`${run}: accuracy ${formatShare(results.report.accuracy)}`);
}

async function shareOf(out: string, unit: Unit): Promise<{ name: string; text: string; share: number }> {
  const progress = unit.kind === "train" ? await progressOf(runFolder(out, unit.run)) : null;
  if (!progress || progress.steps === 0) return { name: nameOf(unit), text: "", share: 0 };
  const share = progress.step / progress.steps;
  return { name: nameOf(unit), text: ` ${formatShare(share, 0)}`, share: Math.min(1, share) };
}
