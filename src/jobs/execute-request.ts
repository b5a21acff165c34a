import { attack, attackShards } from "../actions/attack/attack.js";
import type { Callbacks } from "../actions/callbacks.js";
import { evaluateAdvglue } from "../actions/evaluate/evaluate.js";
import { estimateRun } from "../actions/train/estimate-run.js";
import { fineTune } from "../actions/train/train.js";
import { getErrorMessage, UserError } from "../errors.js";
import { writeFileAtomic } from "../files.js";
import { Interrupted } from "../train/index.js";
import { hashRequest } from "./hash-request.js";
import type { WorkRequest, WorkResult } from "./work-request.js";

interface RequestCallbacks extends Callbacks {
  /** Called when training has begun. From now on `signal` makes it save its work. */
  onTrainingStart?(): void;
}

/**
 * Executes one request with the function of the library. Work that was stopped before is continued.
 */
export async function executeRequest(
  request: WorkRequest,
  { onTrainingStart, ...callbacks }: RequestCallbacks = {},
): Promise<unknown> {
  switch (request.kind) {
    case "train": {
      const run = await fineTune(request.config, {
        ...callbacks,
        out: request.out,
        resume: true,
        callbacks: { onStart: () => onTrainingStart?.() },
      });
      const results = (await run.results())!;
      // The run folder has all the results.
      return { accuracy: results.test.accuracy, validation: results.validation };
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
  callbacks: RequestCallbacks = {},
): Promise<{ readonly result: WorkResult; readonly cause?: unknown }> {
  const base = { format: 1, hash: hashRequest(request) } as const;
  try {
    return { result: { ...base, status: "done", result: await executeRequest(request, callbacks) } };
  } catch (cause) {
    const error = { message: getErrorMessage(cause), isUserError: cause instanceof UserError };
    return { result: { ...base, status: cause instanceof Interrupted ? "interrupted" : "failed", error }, cause };
  }
}
