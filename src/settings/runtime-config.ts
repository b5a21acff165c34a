import { availableParallelism } from "node:os";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { describeCrash } from "../base/processes.js";
import { countSchema, orNull } from "../base/validate.js";
import type { DeviceConfig } from "../models/index.js";
import {
  allowTf32,
  chooseDevice,
  chooseFastestPrecision,
  getPrecisionVerdict,
  type PrecisionUse,
  requirePrecision,
  setNumThreads,
} from "../tensor/index.js";
import { native } from "../tensor/native.js";

export const runtimeOptions = {
  device: z
    .string()
    .regex(/^(auto|cpu|cuda(:\d+)?)$/, { error: "expected auto, cpu, cuda or cuda:N" })
    .default("auto")
    .describe("cpu, cuda, cuda:N, or auto for a GPU if there is one"),
  precision: orNull(z.enum(["auto", "bf16", "tf32", "fp32"]), "bf16 on a GPU, fp32 on a CPU").describe(
    "bf16, tf32 (GPU only), fp32, or auto: the fastest that works on this host",
  ),
  threads: orNull(countSchema, "all cores").describe("CPU threads"),
};

export const runtimeSchema = z.strictObject(runtimeOptions);

/** The precisions of a search, whose decisions are confirmed in float32 on a CPU. */
export const searchPrecision = orNull(z.enum(["auto", "bf16", "int8", "tf32", "fp32"]), "auto").describe(
  "precision of the search: int8 (CPU only), bf16, tf32 (GPU only), fp32, or auto: the fastest that works on " +
    "this host; on a CPU, successes are confirmed in fp32",
);

export interface RuntimeOptions extends Omit<z.input<typeof runtimeSchema>, "precision"> {
  readonly precision?: z.input<typeof searchPrecision>;
}

export interface RuntimeConfig extends DeviceConfig {
  readonly precision: "bf16" | "tf32" | "fp32" | "int8";
  readonly threads: number;
}

export function chooseGpuPrecision(
  wanted: RuntimeConfig["precision"] | null,
  requiresFloat32: boolean,
): RuntimeConfig["precision"] {
  if (wanted === "int8")
    throw new UserError("precision: int8 is for CPUs. Leave it out, use bf16, or add --device cpu.");
  return wanted ?? (requiresFloat32 ? "tf32" : "bf16");
}

export interface PrecisionNeeds {
  readonly use?: PrecisionUse;
  /** True if a method needs more digits than bf16 has. */
  readonly requiresFloat32?: boolean;
}

export function chooseCpuPrecision(
  wanted: RuntimeConfig["precision"] | "auto" | null,
  { use = "inference", requiresFloat32 = false }: PrecisionNeeds = {},
): RuntimeConfig["precision"] {
  if (wanted === "auto") return requiresFloat32 ? "fp32" : chooseFastestPrecision(getPrecisionVerdict, use);
  if (wanted === "tf32")
    throw new UserError(`precision: ${wanted} is for GPUs. Leave it out, or use fp32 or bf16 on a CPU.`);
  if (wanted === "bf16" || wanted === "int8") requirePrecision(wanted);
  return wanted ?? "fp32";
}

function resolveThreads(wanted: number | null | undefined): number {
  return wanted ?? (Number(process.env.OMP_NUM_THREADS) || availableParallelism());
}

/** Resolves the options of a model on ONNX Runtime. It computes on the CPU, in the precision of its file. */
export function resolveOnnxRuntime(
  { device = "auto", precision = null, threads }: RuntimeOptions,
  filePrecision: "fp32" | "int8",
): RuntimeConfig {
  if (device !== "auto" && device !== "cpu")
    throw new UserError(`--device ${device}: ONNX models run on the CPU here. Leave --device out.`);
  if (precision !== null && precision !== "auto" && precision !== "fp32" && precision !== filePrecision)
    throw new UserError(
      `--precision ${precision}: an ONNX model has the precision of its file, here ${filePrecision}. Leave --precision ` +
        "out, or name another file, such as onnx/model_quantized.onnx for int8.",
    );
  return { device: "cpu", computeDtype: "float32", precision: filePrecision, threads: resolveThreads(threads) };
}

/** Resolves device, precision and threads. It changes nothing: `applyRuntime` does. */
export function resolveRuntime(options: RuntimeOptions = {}, needs: PrecisionNeeds = {}): RuntimeConfig {
  const { device: wanted = "auto", precision = null } = options;
  const threads = resolveThreads(options.threads);
  const device = chooseDevice(wanted === "auto" ? undefined : wanted);
  const used =
    device === "cpu"
      ? chooseCpuPrecision(precision, needs)
      : chooseGpuPrecision(precision === "auto" ? null : precision, needs.requiresFloat32 ?? false);
  const computeDtype = used === "bf16" ? "bfloat16" : "float32";
  return { device, computeDtype, ...(used === "int8" && { isQuantized: true }), precision: used, threads };
}

/**
 * Resolves a runtime config and sets the threads and TF32 of the process, which libtorch keeps per
 * process, as it says. If libtorch crashes, the process says in which precision.
 */
export function applyRuntime(options: RuntimeOptions, needs: PrecisionNeeds = {}): RuntimeConfig {
  const runtime = resolveRuntime(options, needs);
  setNumThreads(runtime.threads);
  if (runtime.device !== "cpu") allowTf32(runtime.precision === "tf32");
  const [before, after] = describeCrash("SIGILL", runtime.precision).split("SIGILL") as [string, string];
  native().reportCrashes(`temper: ${before}`, `${after}.\n`);
  return runtime;
}
