import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { getCacheFolder } from "../base/cache.js";
import { UserError } from "../base/errors.js";
import { tryLock } from "../base/lock.js";
import { describeSignal, sleepSync } from "../base/processes.js";
import { openResultCache, type ResultCache } from "../base/result-cache.js";
import { type CpuFeatures, findCpuFeatures, readIsaLimit } from "./cpu-features.js";
import { getBuildFolder, native, packageRoot } from "./native.js";

export { findCpuFeatures, readIsaLimit } from "./cpu-features.js";

/** The values of ONEDNN_MAX_CPU_ISA without products of 8-bit integers that cannot overflow. */
const isasWithoutInt8 = new Set(["SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE"]);
const isasWithoutBf16 = new Set([...isasWithoutInt8, "AVX512_CORE_VNNI"]);

/** Decides for which low precisions libtorch has instructions. Their speed must be measured. */
export function findCpuSupport({
  features,
  capability,
  isaLimit,
}: {
  readonly features: CpuFeatures;
  /** The instruction set that libtorch uses, which ATEN_CPU_CAPABILITY can lower. */
  readonly capability: string;
  /** The instruction set that oneDNN may use at most (ONEDNN_MAX_CPU_ISA); null: all. */
  readonly isaLimit: string | null;
}): { readonly bf16: boolean; readonly int8: boolean } {
  const hasVectors = /^AVX(512|10)/i.test(capability);
  const isa = isaLimit?.toUpperCase() ?? "";
  const { bf16, vnni, amx } = features;
  return {
    bf16: hasVectors && (bf16 || amx) && !isasWithoutBf16.has(isa),
    int8: hasVectors && (vnni || amx) && !isasWithoutInt8.has(isa),
  };
}

/** Returns the low precisions for which libtorch uses instructions of this CPU. */
export function getCpuSupport(): { readonly bf16: boolean; readonly int8: boolean } {
  const addon = native();
  return findCpuSupport({
    features: findCpuFeatures(addon.cpuid()),
    capability: /CPU capability usage: (\S+)/.exec(addon.versions().configuration)?.[1] ?? "",
    isaLimit: readIsaLimit(),
  });
}

/** The precisions of a CPU that are tested before their first use on a host. */
export const lowPrecisions = ["bf16", "int8"] as const;
export type LowPrecision = (typeof lowPrecisions)[number];

/** The use of a model. Only the search of an attack may use 8 bits. */
export type PrecisionUse = "search" | "inference" | "training";

const speed = z.number().positive().nullable();
const verdictSchema = z.object({
  /** The reason why the precision is off on this host; null if it works. */
  failure: z.string().nullable(),
  /** The speed of each use as a multiple of fp32; null if it does not work, or if the precision is not for this use. */
  search: speed,
  inference: speed,
  training: speed,
});

export type PrecisionVerdict = z.output<typeof verdictSchema>;

export function createFailedVerdict(failure: string): PrecisionVerdict {
  return { failure, search: null, inference: null, training: null };
}

/** A precision must be this much faster than fp32 to be worth its errors. */
const minSpeedup = 1.2;

/** The fastest precision that works for a use; fp32 if no other one is clearly faster. */
export function chooseFastestPrecision(
  getVerdict: (precision: LowPrecision) => PrecisionVerdict,
  use: PrecisionUse,
): LowPrecision | "fp32" {
  let [best, bestSpeedup]: [LowPrecision | "fp32", number] = ["fp32", minSpeedup];
  for (const precision of lowPrecisions) {
    const speedup = getVerdict(precision)[use] ?? 0;
    if (speedup > bestSpeedup) [best, bestSpeedup] = [precision, speedup];
  }
  return best;
}

const known = new Map<LowPrecision, PrecisionVerdict>();

/** The program of the self-test trusts the precision that it tests. */
export function trustPrecision(precision: LowPrecision): void {
  known.set(precision, { failure: null, search: null, inference: null, training: null });
}

/**
 * Says whether a low precision works on this CPU, and how fast it is. The first use on a host tests
 * it in another process, because an instruction that the CPU cannot execute ends the process. The
 * verdict is remembered next to the addon, or in the cache folder if that is not writable. With
 * `retry`, a precision that has failed before is tested again.
 */
export function getPrecisionVerdict(precision: LowPrecision, { retry = false } = {}): PrecisionVerdict {
  const found = known.get(precision);
  if (found) return found;
  const verdict = isCrashSimulated(precision) ? runSelfTest(precision) : readOrTest(precision, retry);
  known.set(precision, verdict);
  return verdict;
}

/** Throws an error if a low precision does not work on this CPU. */
export function requirePrecision(precision: LowPrecision): void {
  const { failure } = getPrecisionVerdict(precision);
  if (failure !== null)
    throw new UserError(
      `precision: ${precision} does not work on this CPU. In the self-test, ${failure}. Use --precision fp32, or auto. ` +
        "`temper doctor` tests it again.",
    );
}

/** Tests set TEMPER_SIMULATE_CRASH to a precision whose self-test then crashes. */
function isCrashSimulated(precision: LowPrecision): boolean {
  return process.env.TEMPER_SIMULATE_CRASH === precision;
}

function readOrTest(precision: LowPrecision, retry: boolean): PrecisionVerdict {
  const path = findVerdictFile();
  if (path === null) return runSelfTest(precision);
  const key = createKey(precision);
  const open = (): ResultCache<PrecisionVerdict> => openResultCache(path);
  const read = (): PrecisionVerdict | undefined => {
    const cache = open();
    cache.close();
    return cache.get(key);
  };
  const before = read();
  if (before && !(retry && before.failure !== null)) return before;
  const unlock = waitForLock(`${path}.lock`);
  try {
    // Another process may have tested it while this one waited. All must use the same verdict.
    const justWritten = retry ? undefined : read();
    if (justWritten) return justWritten;
    const verdict = runSelfTest(precision);
    const cache = open();
    cache.add(key, verdict);
    cache.close();
    return verdict;
  } finally {
    unlock();
  }
}

/** Everything that decides which instructions run. */
function createKey(precision: LowPrecision): string {
  const addon = native();
  const { libtorch, configuration } = addon.versions();
  const hash = createHash("sha256")
    .update(readFileSync(join(getBuildFolder(), "temper.node")))
    .digest("hex");
  const capability = /CPU capability usage: (\S+)/.exec(configuration)?.[1] ?? null;
  const hardware = [cpus()[0]?.model, addon.cpuid(), readIsaLimit(), capability];
  return JSON.stringify([2, precision, ...hardware, libtorch, hash]);
}

/** The file of the verdicts: next to the addon, or in the cache folder. Null if neither can be written. */
function findVerdictFile(): string | null {
  for (const folder of [getBuildFolder(), getCacheFolder()]) {
    const path = join(folder, "precision.jsonl");
    try {
      openResultCache(path).close();
      return path;
    } catch {
      // The next folder may be writable.
    }
  }
  return null;
}

/** Several processes that test at the same time would measure each other. */
function waitForLock(path: string): () => void {
  for (;;) {
    const lock = tryLock(path);
    if (typeof lock === "function") return lock;
    sleepSync(100);
  }
}

/** The self-test takes a few seconds. On a busy host it gets more time, until it counts as hanging. */
const maxMilliseconds = 120_000;

/** Runs src/train/self-test.ts, which prints a verdict. */
function runSelfTest(precision: LowPrecision): PrecisionVerdict {
  const program = join(packageRoot, "dist", "train", "self-test.js");
  if (!existsSync(program)) throw new UserError(`${program} is missing. Run \`make setup\`, or install Temper again.`);
  const { stdout, stderr, signal, status, error } = spawnSync(process.execPath, [program, precision], {
    encoding: "utf8",
    timeout: maxMilliseconds,
    killSignal: "SIGKILL",
  });
  try {
    return verdictSchema.parse(JSON.parse(stdout));
  } catch {
    if (error && "code" in error && error.code === "ETIMEDOUT")
      return createFailedVerdict(`libtorch did not finish within ${maxMilliseconds / 1000} s`);
    if (signal !== null) return createFailedVerdict(describeSignal(signal));
    return createFailedVerdict(`the process ended with exit code ${status}: ${stderr.trim().split("\n").at(-1) ?? ""}`);
  }
}
