import { basename } from "node:path";
import { attack, attackShards } from "../actions/attack/attack.js";
import { evaluateAdvglue } from "../actions/evaluate.js";
import { exact, exactParts } from "../actions/exact/exact.js";
import { measureRun } from "../actions/train/estimate-run.js";
import { countWork } from "../actions/train/run-work.js";
import { trainResolved } from "../actions/train/train.js";
import { getErrorMessage, Interrupted, UserError } from "../base/errors.js";
import type { Callbacks } from "../base/events.js";
import { writeJson } from "../base/read-json.js";
import { rejectModules, rejectOutputs, type Trust } from "../base/trust.js";
import { validate } from "../base/validate.js";
import { getRunPath } from "../runs/run-files.js";
import type { RunConfig } from "../settings/config.js";
import { type ResolvedRun, readConfigFile, resolveRun, userModules } from "../settings/read-config.js";
import { createPartRunner } from "./attack-in-processes.js";
import { hashRequest, type WorkRequest, type WorkResult } from "./work-request.js";
import { attackProcessesVariable } from "./worker-process.js";

/** The modules of a request have been checked before. */
const resolveNamed = (config: RunConfig): Promise<ResolvedRun> => resolveRun(config, userModules);

/** Executes one request or continues it. The modules that it names need the user's trust. */
export async function executeRequest(
  request: WorkRequest,
  trust: Trust,
  callbacks: Callbacks = {},
  outputFolders: readonly string[] = [],
): Promise<unknown> {
  rejectModules(request, trust, "request");
  rejectOutputs(request, trust, outputFolders, "request");
  switch (request.kind) {
    case "train": {
      const { out } = request;
      const config = request.config ?? (await readConfigFile(getRunPath(out, "config")));
      const run = await resolveRun(config, { trust, folder: "." }, () => out);
      await trainResolved(run, { out, resume: true }, callbacks);
      // The run folder has the results.
      return null;
    }
    case "count-work":
      return countWork(await Promise.all(request.configs.map(resolveNamed)), callbacks);
    case "measure":
      return measureRun(await resolveNamed(request.config), request, callbacks);
    case "advglue": {
      const { out, ...rest } = omitKind(request);
      const result = await evaluateAdvglue(rest, callbacks);
      await writeJson(out, result);
      return result;
    }
    case "exact": {
      const { result: path, ...rest } = omitKind(request);
      const { texts: _, ...report } = await exact(rest, callbacks);
      await writeJson(path, { proof: basename(report.proof) });
      return report;
    }
    case "exact-parts":
      return exactParts(omitKind(request), callbacks);
    case "attack": {
      const processes = Number(process.env[attackProcessesVariable] ?? 1);
      const runShards = createPartRunner("attack-shards", processes, callbacks.signal);
      return attack({ ...omitKind(request), resume: true }, { ...callbacks, runShards });
    }
    case "harden": {
      const { hardenFromFlags } = await import("../harden/harden.js");
      const { standard, robust, verdict } = await hardenFromFlags({ ...omitKind(request), resume: true }, callbacks);
      return { standard, robust, verdict };
    }
    case "attack-shards":
      return attackShards(omitKind(request), callbacks);
    case "analyze": {
      const { dependsOn: _, ...rest } = omitKind(request);
      // Most workers train: they start faster without the analyses.
      const { analysisRequestSchema, analyze } = await import("../analysis/index.js");
      const { name, summary, files } = await analyze(validate(analysisRequestSchema, rest, "request"), callbacks);
      return { name, summary, files };
    }
  }
}

function omitKind<Request extends WorkRequest>({ kind: _, ...rest }: Request): Omit<Request, "kind"> {
  return rest;
}

export async function executeToResult(
  request: WorkRequest,
  trust: Trust,
  callbacks: Callbacks = {},
  outputFolders: readonly string[] = [],
): Promise<{ readonly result: WorkResult; readonly cause?: unknown }> {
  const base = { format: 1, hash: hashRequest(request) } as const;
  try {
    const result = await executeRequest(request, trust, callbacks, outputFolders);
    return { result: { ...base, status: "done", result } };
  } catch (cause) {
    const error = { message: getErrorMessage(cause), isUserError: cause instanceof UserError };
    return { result: { ...base, status: cause instanceof Interrupted ? "interrupted" : "failed", error }, cause };
  }
}
