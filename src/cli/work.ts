import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Command } from "@commander-js/extra-typings";
import { UserError } from "../errors.js";
import { commandLine } from "../shell.js";
import { readPlan } from "../sweeps/plan.js";
import { unitOf } from "../sweeps/slurm.js";
import { interruptedCode } from "../sweeps/step.js";
import { performUnit, recordEnd, stepsOf } from "../sweeps/unit.js";
import type { Io } from "./io.js";
import { wholeNumber } from "./options.js";
import { onStopSignals } from "./signals.js";
import { ExitCode } from "./verb.js";

/** A sweep's own verb: a job of a cluster works on one entry of a list. */
export function define(command: Command, io: Io): void {
  command
    .argument("<list>", "the list of a sweep's job")
    .argument("<index>", "which entry of it", wholeNumber(0))
    .action((list, index) => work(io, list, index));
}

async function work(io: Io, list: string, index: number): Promise<void> {
  const { out, unit } = await unitOf(list, index);
  const plan = await readPlan(out);
  if (!plan) throw new UserError(`${out}: its sweep is gone; submit it again`);
  const stop = new AbortController();
  const onSignal = (): void => stop.abort();
  const unlisten = onStopSignals(onSignal);
  const folder = (await stepsOf(out, plan, unit))?.folder;
  const before = folder ? await traceOf(folder) : 0;
  let end = await performUnit(out, plan, unit, { stop: stop.signal });
  // Queued again without end, a job that cannot do a step in its time would never be seen to fail.
  if (end.state === "interrupted" && folder && (await traceOf(folder)) === before) {
    const error = "it was stopped before it had done a single step; where the time limit did it, give more --time";
    end = { state: "failed", error, command: commandLine(["temper", "work", list, String(index)]) };
  }
  await recordEnd(out, plan, unit, end);
  unlisten();
  if (end.state === "failed") io.stderr.write(`temper: ${end.error}\nDo it again with: ${end.command}\n`);
  if (end.state === "interrupted") throw new ExitCode(interruptedCode);
  if (end.state !== "done") throw new ExitCode(1);
}

/** Grows with all that a unit does: steps, examples attacked, points of a figure. */
async function traceOf(folder: string): Promise<number> {
  const names = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith(".jsonl"));
  const sizes = await Promise.all(names.map((name) => stat(join(folder, name)).then(({ size }) => size)));
  return sizes.reduce((sum, size) => sum + size, 0);
}
