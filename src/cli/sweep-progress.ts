import { formatPercent } from "../base/format.js";
import { RunFolder, readResults } from "../runs/run-folder.js";
import type { SweepEvent, WorkItemResult } from "../sweeps/index.js";
import { formatWorkItem, type WorkItem, type WorkPhase } from "../sweeps/index.js";
import { getRunFolder } from "../sweeps/plan.js";
import { type Io, removeControls } from "./io.js";
import { createProgress, type Progress, type ProgressDetails } from "./progress.js";

const phaseUnits: Readonly<Record<WorkPhase["kind"], string>> = {
  train: "runs",
  evaluate: "evaluations",
  analyze: "analyses",
  sweep: "runs and evaluations",
};

const maxNamedItems = 2;
const refreshMilliseconds = 1000;

export function createSweepProgress(
  io: Io,
  out: string,
  quiet: boolean,
): { onEvent(event: SweepEvent): void; end(): void } {
  let progress: Progress | undefined;
  let done = 0;
  const running = new Map<string, WorkItem>();
  const show = async (): Promise<void> => {
    const items = await Promise.all([...running.values()].map((item) => readItemProgress(out, item)));
    const names = items.slice(0, maxNamedItems);
    const more = items.length > maxNamedItems ? ` and ${items.length - maxNamedItems} more` : "";
    const details: ProgressDetails = items.length > 0 ? { running: names.join(", ") + more } : {};
    progress?.update(done, details);
  };
  const timer = setInterval(() => void show(), refreshMilliseconds).unref();
  const startPhase = ({ kind, items }: WorkPhase, before: number): void => {
    progress?.end();
    const [unit, total] = [phaseUnits[kind], items.length];
    done = before;
    progress = createProgress({
      label: kind,
      total,
      unit,
      start: before,
      quiet,
      stream: io.stderr,
      silence: io.silence,
    });
    if (before > 0 && before < total) progress.printLine(`${before} of ${total} ${unit} were done before`);
  };
  const endItem = (item: WorkItem, result: WorkItemResult): void => {
    running.delete(formatWorkItem(item));
    if (result.state === "done") done++;
    if (result.state === "failed") progress?.printLine(`${formatWorkItem(item)} failed: ${result.error}`);
    if (result.state === "done" && item.kind === "train")
      void readResults(getRunFolder(out, item.run)).then(
        (results) => results && progress?.printLine(`${item.run}: accuracy ${formatPercent(results.test.accuracy)}`),
        () => undefined,
      );
    void show();
  };
  return {
    onEvent(event) {
      if (event.type === "phase") startPhase(event.phase, event.done);
      if (event.type === "item-start") {
        running.set(formatWorkItem(event.item), event.item);
        void show();
      }
      if (event.type === "item-end") endItem(event.item, event.result);
      if (event.type !== "warning") return;
      if (progress) progress.printLine(event.message);
      else if (!quiet) io.stderr.write(removeControls(`${event.message}\n`));
    },
    end() {
      clearInterval(timer);
      progress?.end();
    },
  };
}

async function readItemProgress(out: string, item: WorkItem): Promise<string> {
  const name = formatWorkItem(item);
  const run = item.kind === "train" ? await RunFolder.open(getRunFolder(out, item.run)).catch(() => null) : null;
  const progress = await run?.progress();
  if (!progress || progress.steps === 0) return name;
  const fraction = Math.min(1, progress.step / progress.steps);
  return `${name} ${formatPercent(fraction, 0)}`;
}
