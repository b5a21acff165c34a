import { availableParallelism } from "node:os";
import { z } from "zod";
import { UserError } from "../errors.js";
import type { DeviceConfig } from "../models/index.js";
import { allowTf32, chooseDevice, setNumThreads } from "../tensor/index.js";
import { countSchema, orNull } from "../validate.js";

/**
 * The keys of every request that computes something: where, how precisely and with how many
 * threads.
 */
export const runtimeOptions = {
  device: z
    .string()
    .regex(/^(auto|cpu|cuda(:\d+)?)$/, { error: "expected auto, cpu, cuda or cuda:N" })
    .default("auto")
    .describe("cpu, cuda, cuda:N, or auto for a GPU if there is one"),
  precision: orNull(z.enum(["bf16", "tf32", "fp32"])).describe(
    "bf16, tf32 or fp32; null: bf16 on a GPU, fp32 on a CPU",
  ),
  threads: orNull(countSchema).describe("CPU threads; null: all cores"),
};

export const runtimeSchema = z.strictObject(runtimeOptions);

/** Where a model is computed, as a request says it. */
export type RuntimeOptions = z.input<typeof runtimeSchema>;

/** Where a model is computed, how precisely and with how many threads, with every choice made. */
export interface RuntimeConfig extends DeviceConfig {
  readonly precision: "bf16" | "tf32" | "fp32";
  readonly threads: number;
}

/** The precision of a GPU if none is named: bf16, unless a method needs more. */
export function chooseGpuPrecision(
  wanted: RuntimeConfig["precision"] | null,
  requiresFloat32: boolean,
): RuntimeConfig["precision"] {
  return wanted ?? (requiresFloat32 ? "tf32" : "bf16");
}

/** Resolves device, precision and threads. It changes nothing: `applyRuntime` does. */
export function resolveRuntime(options: RuntimeOptions = {}, requiresFloat32 = false): RuntimeConfig {
  const { device: wanted = "auto", precision = null, threads: wantedThreads = null } = options;
  const threads = wantedThreads ?? (Number(process.env.OMP_NUM_THREADS) || availableParallelism());
  const device = chooseDevice(wanted === "auto" ? undefined : wanted);
  if (device === "cpu") {
    if (precision !== null && precision !== "fp32")
      throw new UserError(
        `precision: expected fp32 on a CPU, received ${precision}. Leave it out, or use --device cuda.`,
      );
    return { device, computeDtype: "float32", precision: "fp32", threads };
  }
  const used = chooseGpuPrecision(precision, requiresFloat32);
  return { device, computeDtype: used === "bf16" ? "bfloat16" : "float32", precision: used, threads };
}

/**
 * Resolves a runtime config and sets the threads and TF32 of the process, which libtorch keeps per
 * process, as it says.
 */
export function applyRuntime(options: RuntimeOptions, requiresFloat32 = false): RuntimeConfig {
  const runtime = resolveRuntime(options, requiresFloat32);
  setNumThreads(runtime.threads);
  if (runtime.device !== "cpu") allowTf32(runtime.precision === "tf32");
  return runtime;
}
