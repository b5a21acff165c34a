import { availableParallelism } from "node:os";
import { UserError } from "../errors.js";
import { allowTf32, chooseDevice, setNumThreads } from "../tensor/index.js";
import type { Placement } from "../train/index.js";
import type { RunConfig } from "./config.js";

/** Where and how precisely a model is computed. */
export interface RuntimeConfig extends Placement {
  readonly precision: "bf16" | "tf32" | "fp32";
  readonly threads: number;
}

export type RuntimeOptions = Pick<RunConfig, "device" | "precision" | "threads">;

/** What a GPU computes in where nothing is said: bf16, unless that would be too coarse for what it is to do. */
export function chooseGpuPrecision(
  wanted: RuntimeConfig["precision"] | null,
  needsFloat32: boolean,
): RuntimeConfig["precision"] {
  return wanted ?? (needsFloat32 ? "tf32" : "bf16");
}

/** Chooses the device, and sets threads and precision for the process. */
export function configureRuntime({ device, precision, threads }: RuntimeOptions, needsFloat32 = false): RuntimeConfig {
  const count = threads ?? (Number(process.env.OMP_NUM_THREADS) || availableParallelism());
  setNumThreads(count);
  const chosen = chooseDevice(device === "auto" ? undefined : device);
  if (chosen === "cpu") {
    if (precision !== null && precision !== "fp32")
      throw new UserError(
        `precision: expected fp32 on a CPU, received ${precision}; leave it out, or use --device cuda`,
      );
    return { device: "cpu", computeDtype: "float32", precision: "fp32", threads: count };
  }
  const used = chooseGpuPrecision(precision, needsFloat32);
  allowTf32(used === "tf32");
  return { device: chosen, computeDtype: used === "bf16" ? "bfloat16" : "float32", precision: used, threads: count };
}
