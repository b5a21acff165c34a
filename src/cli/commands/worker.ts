import { on } from "node:events";
import type { Command } from "@commander-js/extra-typings";
import { UserError } from "../../base/errors.js";
import type { TemperEvent } from "../../base/events.js";
import { writeFileAtomic } from "../../base/files.js";
import { formatNumber } from "../../base/format.js";
import { interruptedExitCode, onStopSignals } from "../../base/processes.js";
import type { Trust } from "../../base/trust.js";
import { validate } from "../../base/validate.js";
import type { HardenCallbacks } from "../../harden/harden.js";
import { executeToResult } from "../../jobs/execute-request.js";
import { readWorkRequest, type WorkProgress, workFilesSchema } from "../../jobs/work-request.js";
import type { WorkItemResult } from "../../sweeps/index.js";
import { emptyAllCaches } from "../../tensor/index.js";
import { ExitCode } from "../command.js";
import { type Io, removeControls } from "../io.js";
import { createIntegerParser } from "../options.js";

export const examples = [];

export function define(command: Command, io: Io): void {
  command
    .argument("[file]", "the request (JSON)")
    .argument("[result]", "where the result goes (JSON)")
    .option("--sweep <folder>", "execute what nobody else does in a phase of this sweep")
    .option("--phase <index>", "index of the phase", createIntegerParser(0))
    .option("--allow-code", "run the modules that the request names")
    .option("--progress <file>", "where the progress of the request goes (JSON)")
    .option("--outputs <folder...>", "files that the request names may be written below these folders")
    .action((file, result, { sweep, phase = 0, allowCode, outputs, progress }) => {
      const trust = allowCode ? "user" : "data";
      if (sweep !== undefined) return runSweepPhase(io, sweep, phase, trust);
      if (file === undefined) return executeMessages(io, trust);
      if (result === undefined) throw new UserError("temper worker: expected REQUEST.json RESULT.json.");
      return runRequest(io, file, result, trust, outputs, progress);
    });
}

const progressMilliseconds = 500;

function recordProgress(path: string) {
  let progress: WorkProgress = { stage: "", done: 0, total: 0, unit: "texts" };
  let written = progress;
  const write = async (): Promise<void> => {
    if (written === progress) return;
    written = progress;
    await writeFileAtomic(path, `${JSON.stringify(progress)}\n`);
  };
  const timer = setInterval(() => void write().catch(() => undefined), progressMilliseconds);
  return {
    onStage(stage: string) {
      progress = { ...progress, stage };
    },
    onEvent(event: TemperEvent) {
      if (event.type === "progress") progress = { ...progress, done: event.done, total: event.total, unit: "texts" };
      if (event.type === "start" || event.type === "step")
        progress = { ...progress, done: event.step, total: event.totalSteps, unit: "steps" };
    },
    async end(): Promise<void> {
      clearInterval(timer);
      await write();
    },
  };
}

/** Executes each request that the parent process sends, and answers when it is done. "end" ends it. */
async function executeMessages(io: Io, trust: Trust): Promise<void> {
  const { channel } = process;
  if (!process.send || !channel) throw new UserError("temper worker: expected REQUEST.json RESULT.json.");
  channel.ref();
  try {
    for await (const [message] of on(process, "message") as AsyncIterable<[unknown]>) {
      if (message === "end") break;
      const { requestPath, resultPath } = validate(workFilesSchema, message, "message");
      await runRequest(io, requestPath, resultPath, trust);
      // The worker may wait for its next request, and others may need the memory.
      emptyAllCaches();
      process.send("done");
    }
  } finally {
    // A request that did not succeed ends the process.
    channel.unref();
  }
}

async function runRequest(
  io: Io,
  requestPath: string,
  resultPath: string,
  trust: Trust,
  outputs: readonly string[] = [],
  progressPath: string | null = null,
): Promise<void> {
  const request = await readWorkRequest(requestPath);
  const stop = new AbortController();
  let unlisten = (): void => undefined;
  const recorded = progressPath === null ? null : recordProgress(progressPath);
  const callbacks: HardenCallbacks = {
    signal: stop.signal,
    onStage: (_, sentence) => recorded?.onStage(sentence),
    onEvent(event) {
      recorded?.onEvent(event);
      if (event.type === "warning") io.stderr.write(removeControls(`warning: ${event.message}\n`));
      if (event.type === "evaluation") io.stderr.write(removeControls(formatEvaluation(event.step, event.metrics)));
      // Before training starts nothing can be lost, and other actions save their work as they go.
      if (event.type === "start") unlisten = onStopSignals(() => stop.abort());
    },
  };
  const { result, cause } = await executeToResult(request, trust, callbacks, outputs);
  unlisten();
  await recorded?.end();
  if (cause)
    io.stderr.write(removeControls(`temper: ${result.error?.isUserError ? result.error.message : getStack(cause)}\n`));
  await writeFileAtomic(resultPath, `${JSON.stringify(result)}\n`);
  if (result.status === "interrupted") throw new ExitCode(interruptedExitCode);
  if (result.status === "failed") throw new ExitCode(result.error?.isUserError ? 2 : 1);
}

function formatEvaluation(step: number, metrics: Readonly<Record<string, number>>): string {
  const values = Object.entries(metrics).map(([name, value]) => `${name} ${formatNumber(value)}`);
  return `step ${step}: validation ${values.join(", ")}\n`;
}

function getStack(cause: unknown): string {
  return (cause instanceof Error && cause.stack) || String(cause);
}

async function runSweepPhase(io: Io, out: string, phase: number, trust: Trust): Promise<void> {
  const { runPhase } = await import("../../sweeps/index.js");
  const stop = new AbortController();
  const unlisten = onStopSignals(() => stop.abort());
  let hasFailed = false;
  const onEnd = (name: string, result: WorkItemResult): void => {
    hasFailed ||= result.state === "failed";
    const more = result.state === "failed" ? `: ${result.error}\nLog: ${result.log}` : "";
    io.stderr.write(removeControls(`${name}: ${result.state}${more}\n`));
  };
  await runPhase(out, phase, { trust, stop: stop.signal }, onEnd).finally(unlisten);
  if (stop.signal.aborted) throw new ExitCode(interruptedExitCode);
  if (hasFailed) throw new ExitCode(1);
}
