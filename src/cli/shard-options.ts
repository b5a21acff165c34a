import type { Command, OptionValues } from "@commander-js/extra-typings";
import type { z } from "zod";
import { createRequestedShardRunner, shardOptions } from "../jobs/attack-in-processes.js";
import { slurmKeys } from "../jobs/slurm.js";
import { addOptions } from "./options.js";

/** Adds the flags of jobs on a cluster. */
export function addSlurmOptions<Args extends unknown[], Options extends OptionValues>(command: Command<Args, Options>) {
  return addOptions(command, slurmKeys, {
    partition: "<name>",
    gpus: "<count>",
    cpus: "<count>",
    time: "<limit>",
    memory: "<size>",
    options: "--sbatch <option>",
  });
}

/** Adds the flags of work in several processes, on this host or on a cluster. */
export function addShardOptions<Args extends unknown[], Options extends OptionValues>(command: Command<Args, Options>) {
  return addSlurmOptions(addOptions(command, shardOptions, { processes: "<count>", backend: "<name>" }));
}

/** Moves the values of `addSlurmOptions` from the options of a command to the key `slurm`. */
export function groupSlurmOptions<Options extends Partial<z.input<z.ZodObject<typeof slurmKeys>>>>(given: Options) {
  const { partition, gpus, cpus, time, memory, options, ...rest } = given;
  return { ...rest, slurm: { partition, gpus, cpus, time, memory, options } };
}

/** Takes these flags out of the options of a command. The runner is null if this process works alone. */
export function takeShardRunner<
  Kind extends "attack-shards" | "exact-parts",
  Options extends z.input<z.ZodObject<typeof shardOptions>> & Partial<z.input<z.ZodObject<typeof slurmKeys>>>,
>(kind: Kind, options: Options) {
  const { processes, backend, slurm, ...request } = groupSlurmOptions(options);
  return [createRequestedShardRunner(kind, { processes, backend, slurm }), request] as const;
}
