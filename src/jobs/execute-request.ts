import { attack, attackShards } from "../actions/attack/attack.js";
import { evaluateAdvglue } from "../actions/evaluate/evaluate.js";
import { estimateRun } from "../actions/train/estimate-run.js";
import { train } from "../actions/train/train.js";
import { getErrorMessage, UserError } from "../errors.js";
import type { Callbacks } from "../events.js";
import { writeFileAtomic } from "../files.js";
import { readConfigFile } from "../runs/read-config.js";
import { getRunPath } from "../runs/run-files.js";
import { Interrupted } from "../train/index.js";
import { hashRequest } from "./hash-request.js";
import type { WorkRequest, WorkResult } from "./work-request.js";

/**
 * Executes one request with the function of the library. Work that was stopped before is continued.
 */
export async function executeRequest(request: WorkRequest, callbacks: Callbacks = {}): Promise<unknown> {
  switch (request.kind) {
    case "train": {
      const { out } = request;
      const config = request.config ?? (await readConfigFile(getRunPath(out, "config")));
      await train({ ...config, out, resume: true }, callbacks);
      // The run folder has the results.
      return null;
    }
    case "estimate":
      return estimateRun(request.config, callbacks);
    case "advglue": {
      const { kind: _, out, ...rest } = request;
      const result = await evaluateAdvglue(rest, callbacks);
      await writeFileAtomic(out, `${JSON.stringify(result, null, 2)}\n`);
      return result;
    }
    case "attack": {
      const { kind: _, ...rest } = request;
      return attack({ ...rest, resume: true }, callbacks);
    }
    case "attack-shards": {
      const { kind: _, ...rest } = request;
      return attackShards(rest, callbacks);
    }
    case "analyze": {
      const { kind: _, dependsOn: __, ...rest } = request;
      // Most workers train: they start faster without the analyses.
      const { analysisRequestSchema, analyze } = await import("../analysis/index.js");
      const { name, summary, files } = await analyze(analysisRequestSchema.parse(rest), callbacks);
      return { name, summary, files };
    }
  }
}

/** Executes a request and describes how it ended. It does not throw. */
export async function executeToResult(
  request: WorkRequest,
  callbacks: Callbacks = {},
): Promise<{ readonly result: WorkResult; readonly cause?: unknown }> {
  const base = { format: 1, hash: hashRequest(request) } as const;
  try {
    return { result: { ...base, status: "done", result: await executeRequest(request, callbacks) } };
  } catch (cause) {
    const error = { message: getErrorMessage(cause), isUserError: cause instanceof UserError };
    return { result: { ...base, status: cause instanceof Interrupted ? "interrupted" : "failed", error }, cause };
  }
}
