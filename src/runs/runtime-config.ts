import { availableParallelism } from "node:os";
import { z } from "zod";
import { UserError } from "../errors.js";
import type { DeviceConfig } from "../models/index.js";
import { canPrepare } from "../nn/index.js";
import { allowTf32, type CpuSupport, chooseDevice, getCpuSupport, setNumThreads } from "../tensor/index.js";
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
    "bf16, tf32 (GPU only) or fp32; null: bf16 on a GPU, fp32 on a CPU",
  ),
  threads: orNull(countSchema).describe("CPU threads; null: all cores"),
};

export const runtimeSchema = z.strictObject(runtimeOptions);

/** The precisions of a search, whose decisions are confirmed in float32 on a CPU. */
export const searchPrecision = orNull(z.enum(["auto", "bf16", "int8", "tf32", "fp32"])).describe(
  "precision of the search: int8 (CPU only), bf16, tf32 (GPU only), fp32, or auto: bf16, else int8, if the " +
    "device is fast in it; on a CPU, successes are confirmed in fp32; null: auto",
);

/** Where a model is computed, as a request says it. */
export interface RuntimeOptions extends Omit<z.input<typeof runtimeSchema>, "precision"> {
  readonly precision?: z.input<typeof searchPrecision>;
}

/** Where a model is computed, how precisely and with how many threads, with every choice made. */
export interface RuntimeConfig extends DeviceConfig {
  readonly precision: "bf16" | "tf32" | "fp32" | "int8";
  readonly threads: number;
}

/** The precision of a GPU if none is named: bf16, unless a method needs more. */
export function chooseGpuPrecision(
  wanted: RuntimeConfig["precision"] | null,
  requiresFloat32: boolean,
): RuntimeConfig["precision"] {
  if (wanted === "int8")
    throw new UserError("precision: int8 is for CPUs. Leave it out, use bf16, or add --device cpu.");
  return wanted ?? (requiresFloat32 ? "tf32" : "bf16");
}

/**
 * The precision of a CPU: float32, unless another one is named. `auto` is bf16 or else int8 if the
 * CPU has fast instructions for it.
 */
export function chooseCpuPrecision(
  wanted: RuntimeConfig["precision"] | "auto" | null,
  support: CpuSupport,
): RuntimeConfig["precision"] {
  if (wanted === "auto") return support.bf16 ? "bf16" : support.int8 && canPrepare("int8") ? "int8" : "fp32";
  if (wanted === "tf32")
    throw new UserError("precision: tf32 is for GPUs. Leave it out, or use fp32 or bf16 on a CPU.");
  if (wanted === "bf16" && !support.bf16)
    throw new UserError(
      "precision: bf16 needs a CPU with avx512_bf16 or amx_bf16 that ATEN_CPU_CAPABILITY and ONEDNN_MAX_CPU_ISA do " +
        "not disable, and this one would be slower than in fp32. Leave it out, or use --device cuda.",
    );
  if (wanted === "int8" && !canPrepare("int8"))
    throw new UserError("precision: this libtorch cannot multiply in int8 on this CPU. Leave it out, or use fp32.");
  return wanted ?? "fp32";
}

/** Resolves device, precision and threads. It changes nothing: `applyRuntime` does. */
export function resolveRuntime(options: RuntimeOptions = {}, requiresFloat32 = false): RuntimeConfig {
  const { device: wanted = "auto", precision = null, threads: wantedThreads = null } = options;
  const threads = wantedThreads ?? (Number(process.env.OMP_NUM_THREADS) || availableParallelism());
  const device = chooseDevice(wanted === "auto" ? undefined : wanted);
  if (device === "cpu") {
    const used = chooseCpuPrecision(precision, getCpuSupport());
    const computeDtype = used === "bf16" ? "bfloat16" : "float32";
    return { device, computeDtype, ...(used === "int8" && { isQuantized: true }), precision: used, threads };
  }
  const used = chooseGpuPrecision(precision === "auto" ? null : precision, requiresFloat32);
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
