import { z } from "zod";
import { UserError } from "../base/errors.js";
import { countSchema } from "../base/validate.js";
import type { RunConfig } from "../settings/config.js";
import { chooseDevice, type Device, type Rendezvous } from "../tensor/index.js";
import { native } from "../tensor/native.js";

export const processOptions = {
  processes: countSchema.default(1).describe("processes on this host that share the work, one per GPU"),
  timeout: z.number().positive().default(600).describe("longest wait for another process, in seconds"),
};

export interface RankRendezvous extends Rendezvous {
  readonly localRank: number;
}

/** Processes on several hosts get the secret from the person who starts them: srun passes it on. */
export const secretVariable = "TEMPER_RENDEZVOUS_SECRET";

const torchrunVariables = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"] as const;

/** Reads what `torchrun`, `srun` or `--processes` set. Returns null if the process works alone. */
export function readRendezvous(
  env: Readonly<Record<string, string | undefined>>,
  timeout: number,
): RankRendezvous | null {
  const size = Number(env.SLURM_STEP_NUM_TASKS ?? 1);
  const found =
    env.WORLD_SIZE !== undefined ? readTorchrun(env, timeout) : size > 1 ? readSrun(env, size, timeout) : null;
  return found && { ...found, secret: env[secretVariable] ?? "" };
}

function readTorchrun(env: Readonly<Record<string, string | undefined>>, timeout: number): RankRendezvous | null {
  if (Number(env.WORLD_SIZE) === 1) return null;
  const missing = torchrunVariables.filter((name) => env[name] === undefined && name !== "LOCAL_RANK");
  if (missing.length > 0)
    throw new UserError(
      `WORLD_SIZE is ${env.WORLD_SIZE}, but ${missing.join(" and ")} is not set. Start with torchrun, srun or ` +
        "--processes, or unset WORLD_SIZE.",
    );
  const [rank, size, localRank, port] = [
    readInteger(env, "RANK", 0),
    readInteger(env, "WORLD_SIZE", 1),
    env.LOCAL_RANK === undefined ? 0 : readInteger(env, "LOCAL_RANK", 0),
    readInteger(env, "MASTER_PORT", 1),
  ];
  if (rank >= size) throw new UserError(`RANK: expected less than WORLD_SIZE ${size}, received ${rank}.`);
  // torchrun itself hosts the store at this address.
  const hasStore = env.TORCHELASTIC_USE_AGENT_STORE !== "True";
  return { rank, size, localRank, host: env.MASTER_ADDR!, port, hasStore, timeout };
}

function readInteger(env: Readonly<Record<string, string | undefined>>, name: string, min: number): number {
  const value = Number(env[name]);
  if (/^\d+$/.test(env[name] ?? "") && value >= min) return value;
  throw new UserError(`${name}: expected an integer of at least ${min}, received "${env[name]}".`);
}

/** Ports between the usual services and those that the system gives to clients. */
const [firstPort, numPorts] = [20_000, 10_000];

/** The tasks of a job step meet at its first host, at a port that depends on the job. */
function readSrun(env: Readonly<Record<string, string | undefined>>, size: number, timeout: number): RankRendezvous {
  const host = env.MASTER_ADDR ?? readFirstHost(env.SLURM_STEP_NODELIST ?? "localhost");
  const job = Number(env.SLURM_JOB_ID ?? 0) * 16 + Number(env.SLURM_STEP_ID ?? 0);
  const port = Number(env.MASTER_PORT ?? firstPort + (job % numPorts));
  return {
    rank: readInteger(env, "SLURM_PROCID", 0),
    size,
    localRank: readInteger(env, "SLURM_LOCALID", 0),
    host,
    port,
    timeout,
  };
}

/** The first host of a list such as `gpu[07-09,12],cpu1`. */
export function readFirstHost(list: string): string {
  const [, prefix = list, first = ""] = /^([^[,]+)(?:\[(\w+))?/.exec(list) ?? [];
  return prefix + first;
}

export function chooseRankDevice(wanted: RunConfig["device"], localRank: number): RunConfig["device"] {
  const gpus = native().devices().length;
  // A scheduler that gives each process one GPU shows it as the first one.
  if ((wanted !== "auto" && wanted !== "cuda") || gpus < 2) return wanted;
  if (localRank >= gpus)
    throw new UserError(
      `Process ${localRank} of this host has no GPU: there are ${gpus}. Start at most ${gpus} processes, ` +
        "or use --device cpu.",
    );
  return chooseDevice(`cuda:${localRank}` as Device);
}
