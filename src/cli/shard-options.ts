import type { Command, OptionValues } from "@commander-js/extra-typings";
import type { z } from "zod";
import { createRequestedShardRunner, shardOptions } from "../jobs/attack-in-processes.js";
import { slurmKeys } from "../jobs/slurm.js";
import { addOptions } from "./options.js";

/** Adds the flags of work in several processes, on this host or on a cluster. */
export function addShardOptions<Args extends unknown[], Options extends OptionValues>(command: Command<Args, Options>) {
  const withProcesses = addOptions(command, shardOptions, { processes: "<count>", backend: "<name>" });
  return addOptions(withProcesses, slurmKeys, {
    partition: "<name>",
    gpus: "<count>",
    cpus: "<count>",
    time: "<limit>",
    memory: "<size>",
    options: "--sbatch <option>",
  });
}

type ShardValues = z.input<z.ZodObject<typeof shardOptions>> & Partial<z.input<z.ZodObject<typeof slurmKeys>>>;

/** Takes these flags out of the options of a command. The runner is null if this process works alone. */
export function takeShardRunner<Kind extends "attack-shards" | "exact-parts", Options extends ShardValues>(
  kind: Kind,
  options: Options,
) {
  const { processes, backend, partition, gpus, cpus, time, memory, options: sbatch, ...request } = options;
  const slurm = { partition, gpus, cpus, time, memory, options: sbatch };
  return [createRequestedShardRunner(kind, { processes, backend, slurm }), request] as const;
}
