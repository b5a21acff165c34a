import { rm } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { RunParts } from "../actions/attack/attack-request.js";
import { isEndpoint } from "../actions/load/load-victim.js";
import { Interrupted, UserError } from "../base/errors.js";
import { createFolder } from "../base/files.js";
import { writeJson } from "../base/read-json.js";
import { processOptions } from "./rendezvous.js";
import type { WorkRequest } from "./work-request.js";
import { runWorker } from "./worker-process.js";

export const shardOptions = { processes: processOptions.processes.describe("processes that share the examples") };

const maxRounds = 10;

/**
 * Lets several workers on this host take the next part of a request that nobody works on. Undefined if
 * this process works alone.
 */
export function createPartRunner<Kind extends "attack-shards" | "exact-parts">(
  kind: Kind,
  processes = 1,
  stop?: AbortSignal,
): RunParts<Omit<Extract<WorkRequest, { kind: Kind }>, "kind">> | undefined {
  if (processes === 1) return undefined;
  // Each worker has its share of the cores.
  const threads = Math.max(1, Math.floor(availableParallelism() / processes));
  const environment = { OMP_NUM_THREADS: process.env.OMP_NUM_THREADS ?? String(threads) };
  return async (given, folder, countOpen) => {
    if (isEndpoint(given.model))
      throw new UserError(
        "--processes: an endpoint is not faster with several. Use --endpoint maxConcurrentRequests=N.",
      );
    const request = { kind, ...given } as unknown as WorkRequest;
    createFolder(folder);
    const requestPath = join(folder, "request.json");
    const resultPaths = Array.from({ length: processes }, (_, i) => join(folder, `result-${i}.json`));
    await writeJson(requestPath, request);
    for (let round = 1; ; round++) {
      for (const path of resultPaths) await rm(path, { force: true });
      const results = await Promise.all(
        resultPaths.map((resultPath) =>
          runWorker(
            { request, requestPath, resultPath },
            `${resultPath}.log`,
            { environment, trust: "user" },
            { stop },
          ),
        ),
      );
      if ((await countOpen()) === 0) return;
      if (stop?.aborted) throw new Interrupted("Stopped. Every finished example is kept.");
      const failure = results.find(
        ({ status, error }) => status === "failed" && (error?.isUserError || round === maxRounds),
      );
      if (failure || round === maxRounds)
        throw new UserError(
          `The workers did not finish: ${failure?.error?.message ?? "some were stopped"}. ` +
            `Their logs are in ${folder}. Every finished example is in a journal. Continue with --resume.`,
        );
    }
  };
}
