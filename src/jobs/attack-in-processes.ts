import { rm } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { dirname, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import type { RunParts } from "../actions/attack/attack-request.js";
import { isEndpoint } from "../actions/load/load-victim.js";
import { UserError } from "../base/errors.js";
import { createFolder } from "../base/files.js";
import { interruptedExitCode, onStopSignals } from "../base/processes.js";
import { writeJson } from "../base/read-json.js";
import { formatCommandLine, shellQuote } from "../base/shell.js";
import { processOptions } from "./rendezvous.js";
import { cancelJobs, checkSlurm, listQueuedJobs, type SlurmSettings, slurmSchema, submitWorkers } from "./slurm.js";
import { temperProgram } from "./temper-program.js";
import { hashRequest, readWorkResult, type WorkRequest, type WorkResult } from "./work-request.js";
import { formatTrust, runWorker } from "./worker-process.js";

export const shardOptions = {
  processes: processOptions.processes.describe("processes that share the examples"),
  backend: z.enum(["local", "slurm"]).default("local").describe("run on this host (local) or on a cluster (slurm)"),
};

const shardRequestSchema = z.object({ ...shardOptions, slurm: slurmSchema.prefault({}) });

const maxRounds = 10;

/** Starts one worker per result path and waits for their ends. */
type StartWorkers = (
  request: WorkRequest,
  requestPath: string,
  resultPaths: readonly string[],
) => Promise<WorkResult[]>;

/** The request of a worker, by the kind of its work. */
type RequestOf<Kind extends WorkRequest["kind"]> = Omit<Extract<WorkRequest, { kind: Kind }>, "kind">;

/**
 * Attacks the shards of a request with several workers, which take the next free shard. Null: this
 * process does all.
 */
export function createRequestedShardRunner<Kind extends "attack-shards" | "exact-parts">(
  kind: Kind,
  options: z.input<typeof shardRequestSchema>,
): RunParts<RequestOf<Kind>> | null {
  const { processes, backend, slurm } = shardRequestSchema.parse(options);
  if (backend === "slurm") checkSlurm(slurm.partition);
  else {
    const given = Object.entries(options.slurm ?? {}).find(([, value]) => value !== undefined)?.[0];
    if (given !== undefined) {
      const flag = given === "options" ? "sbatch" : given;
      throw new UserError(`--${flag} is for jobs on a cluster. Pass --backend slurm, too, or omit it.`);
    }
    if (processes === 1) return null;
  }
  const startWorkers = backend === "slurm" ? createSlurmStarter(slurm) : startLocally;
  return async (request, folder, countOpenShards) => {
    if (isEndpoint(request.model))
      throw new UserError(
        "--processes: an endpoint is not faster with several. Use --endpoint maxConcurrentRequests=N.",
      );
    const work = { kind, ...request } as unknown as WorkRequest;
    createFolder(folder);
    const requestPath = join(folder, "request.json");
    const resultPaths = Array.from({ length: processes }, (_, i) => join(folder, `result-${i}.json`));
    await writeJson(requestPath, work);
    for (let round = 1; ; round++) {
      for (const path of resultPaths) await rm(path, { force: true });
      const results = await startWorkers(work, requestPath, resultPaths);
      if ((await countOpenShards()) === 0) return;
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

/** Workers on this host, each with its share of the cores. */
const startLocally: StartWorkers = (request, requestPath, resultPaths) => {
  const threads = Math.max(1, Math.floor(availableParallelism() / resultPaths.length));
  const environment = { OMP_NUM_THREADS: process.env.OMP_NUM_THREADS ?? String(threads) };
  return Promise.all(
    resultPaths.map((resultPath) =>
      runWorker({ request, requestPath, resultPath }, `${resultPath}.log`, { environment, trust: "user" }),
    ),
  );
};

const jobName = "temper-attack";
const pollMilliseconds = 2000;

function createSlurmStarter(settings: SlurmSettings): StartWorkers {
  return async (request, requestPath, resultPaths) => {
    const folder = dirname(resolve(requestPath));
    const program = formatCommandLine([...temperProgram, "worker", ...formatTrust("user"), resolve(requestPath)]);
    const command = `${program} ${shellQuote(join(folder, "result-"))}"$SLURM_ARRAY_TASK_ID".json`;
    const job = submitWorkers({ name: jobName, tasks: resultPaths.length, command, folder, settings });
    const cancel = (): void => cancelJobs([job]);
    const unlisten = onStopSignals(() => process.exit(interruptedExitCode));
    process.once("exit", cancel);
    try {
      while (listQueuedJobs(jobName).some(({ id }) => id === job)) await delay(pollMilliseconds);
    } finally {
      unlisten();
      process.off("exit", cancel);
    }
    return Promise.all(
      resultPaths.map(
        async (path): Promise<WorkResult> =>
          (await readWorkResult(path).catch(() => null)) ?? { format: 1, hash: hashRequest(request), status: "failed" },
      ),
    );
  };
}
