import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Command } from "@commander-js/extra-typings";
import { UserError } from "../../errors.js";
import { formatCommandLine } from "../../shell.js";
import { readSweepPlan } from "../../sweeps/plan.js";
import { readWorkItem } from "../../sweeps/slurm.js";
import { interruptedExitCode } from "../../sweeps/subprocess.js";
import { recordResult, resolveCommands, runWorkItem } from "../../sweeps/work-item.js";
import { ExitCode } from "../command.js";
import type { Io } from "../io.js";
import { createIntegerParser } from "../options.js";
import { onStopSignals } from "../signals.js";

/** A sweep's own verb: a job of a cluster works on one entry of a list. */
export function define(command: Command, io: Io): void {
  command
    .argument("<list>", "the list of a sweep's job")
    .argument("<index>", "which entry of it", createIntegerParser(0))
    .action((list, index) => runSweepWorker(io, list, index));
}

async function runSweepWorker(io: Io, list: string, index: number): Promise<void> {
  const { out, unit: workItem } = await readWorkItem(list, index);
  const plan = await readSweepPlan(out);
  if (!plan) throw new UserError(`${out}: its sweep is gone; submit it again`);
  const stop = new AbortController();
  const onSignal = (): void => stop.abort();
  const unlisten = onStopSignals(onSignal);
  const folder = (await resolveCommands(out, plan, workItem))?.folder;
  const before = folder ? await measureLogBytes(folder) : 0;
  let end = await runWorkItem(out, plan, workItem, { stop: stop.signal });
  // Queued again without end, a job that cannot do a step in its time would never be seen to fail.
  if (end.state === "interrupted" && folder && (await measureLogBytes(folder)) === before) {
    const error = "it was stopped before it had done a single step; where the time limit did it, give more --time";
    end = { state: "failed", error, command: formatCommandLine(["temper", "work", list, String(index)]) };
  }
  await recordResult(out, plan, workItem, end);
  unlisten();
  if (end.state === "failed") io.stderr.write(`temper: ${end.error}\nDo it again with: ${end.command}\n`);
  if (end.state === "interrupted") throw new ExitCode(interruptedExitCode);
  if (end.state !== "done") throw new ExitCode(1);
}

/** Grows with all that a unit does: steps, examples attacked, points of a figure. */
async function measureLogBytes(folder: string): Promise<number> {
  const names = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith(".jsonl"));
  const sizes = await Promise.all(names.map((name) => stat(join(folder, name)).then(({ size }) => size)));
  return sizes.reduce((sum, size) => sum + size, 0);
}
