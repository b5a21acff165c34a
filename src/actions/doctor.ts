import { spawnSync } from "node:child_process";
import { constants, existsSync, readFileSync } from "node:fs";
import { access, mkdir } from "node:fs/promises";
import { availableParallelism, cpus, totalmem } from "node:os";
import { join } from "node:path";
import { readBackend } from "../base/backend.js";
import { getCacheFolder } from "../base/cache.js";
import { readHubSettings } from "../hub/hub-connection.js";
import { findOnnxRuntime } from "../onnx/find-onnx-runtime.js";
import { getBuildFolder, native, packageRoot } from "../tensor/native.js";
import {
  chooseFastestPrecision,
  findCpuFeatures,
  getPrecisionVerdict,
  type LowPrecision,
  lowPrecisions,
  type PrecisionVerdict,
  readIsaLimit,
} from "../tensor/precision-verdict.js";

interface FoundProblem {
  /** True if nothing can be computed. False if it only could work better. */
  readonly fatal: boolean;
  readonly problem: string;
  readonly remedy: string;
}

export type Diagnosis = Awaited<ReturnType<typeof doctor>>;
export type EngineInfo = ReturnType<typeof readEngineInfo>;

/**
 * Checks everything that Temper needs. A problem is reported, never thrown.
 *
 *     const { usable, problems } = await doctor();
 */
export async function doctor() {
  const addon = join(getBuildFolder(), "temper.node");
  const isOnnxOnly = readBackend() === "onnx";
  const failure = isOnnxOnly ? null : findLoadFailure(addon);
  const engine = failure || isOnnxOnly ? null : readEngineInfo();
  const onnx = findOnnxRuntime();
  const cache = getCacheFolder();
  const { version } = readJson(join(packageRoot, "package.json")) as { version: string };
  const cacheProblem: FoundProblem = {
    fatal: false,
    problem: `The cache folder ${cache} is not writable.`,
    remedy: "Set TEMPER_CACHE to a writable folder.",
  };
  return {
    usable: isOnnxOnly ? "runtime" in onnx : engine !== null,
    temper: version,
    node: process.versions.node,
    platform: `${process.platform} ${process.arch}`,
    addon,
    /** Null if the addon does not load, or if TEMPER_BACKEND is onnx. */
    engine,
    /** The version of ONNX Runtime, which runs exported models; null if it does not load. */
    onnxRuntime: "runtime" in onnx ? (onnx.runtime.env.versions.node ?? null) : null,
    cpu: { model: cpus()[0]?.model.trim() ?? "unknown", cores: availableParallelism() },
    memory: {
      totalBytes: Math.min(totalmem(), process.constrainedMemory() || Infinity),
      availableBytes: process.availableMemory(),
    },
    cache: { folder: cache, hub: readHubSettings().cache },
    problems: [
      ...(failure ? [failure] : []),
      ...("problem" in onnx ? [createOnnxProblem(onnx.problem, isOnnxOnly)] : []),
      ...(engine ? findPerformanceProblems(engine) : []),
      ...((await isWritable(cache)) ? [] : [cacheProblem]),
    ],
  };
}

function createOnnxProblem(problem: string, fatal: boolean): FoundProblem {
  return {
    fatal,
    problem: `Exported models cannot run: ${problem}.`,
    remedy: "Run npm install --ignore-scripts onnxruntime-node.",
  };
}

/**
 * Loads the addon in another process, because a library built for another CPU crashes the process
 * that loads it.
 */
function findLoadFailure(addon: string): FoundProblem | null {
  const remedy = "Run `npx temper setup`, or `make setup` in a checkout.";
  if (!existsSync(addon))
    return { fatal: true, problem: `The native addon is not built: ${addon} is missing.`, remedy };
  const script = join(packageRoot, "scripts/setup/verify.cjs");
  const tried = spawnSync(process.execPath, [script, addon], { encoding: "utf8", timeout: 120_000 });
  if (tried.status === 0) return null;
  const reason =
    tried.error?.message ??
    (tried.signal ? `it ends the process with ${tried.signal}` : tried.stderr.trim().split("\n").at(-1));
  return {
    fatal: true,
    problem: `The native addon ${addon} does not work: ${reason}`,
    remedy: `${remedy} Add --force to rebuild it.`,
  };
}

function readEngineInfo() {
  const engine = native();
  const { libtorch, library, configuration } = engine.versions();
  const built = readJson(join(getBuildFolder(), "libtorch.json")) as { source?: string; cuda?: boolean } | null;
  return {
    libtorch,
    library,
    source: built?.source ?? null,
    cuda: built?.cuda ?? engine.useStream !== undefined,
    blas: findBlasName(configuration),
    capability: /CPU capability usage: (\S+)/.exec(configuration)?.[1] ?? null,
    /** The highest level of oneDNN's instructions, by the user or because the CPU needs it; null: all. */
    isaLimit: readIsaLimit(),
    hasBrokenAmx: findCpuFeatures(engine.cpuid()).isaLimit !== null,
    lowPrecision: testLowPrecisions(),
    auto: {
      search: chooseFastestPrecision(getPrecisionVerdict, "search"),
      inference: chooseFastestPrecision(getPrecisionVerdict, "inference"),
      training: chooseFastestPrecision(getPrecisionVerdict, "training"),
    },
    threads: engine.getNumThreads(),
    gpus: engine.devices(),
  };
}

/** Tests a precision that has failed before again: the user may have changed something. */
function testLowPrecisions(): Record<LowPrecision, PrecisionVerdict> {
  const [bf16, int8] = lowPrecisions.map((precision) => getPrecisionVerdict(precision, { retry: true }));
  return { bf16: bf16!, int8: int8! };
}

/**
 * The library for matrix products: the one that is loaded, or the one that libtorch was built with.
 */
function findBlasName(configuration: string): string {
  const maps = existsSync("/proc/self/maps") ? readFileSync("/proc/self/maps", "utf8") : "";
  const loaded = /\S*\/lib(?:openblas|mkl_rt|blis|blas)[^/\s]*\.so\S*/.exec(maps)?.[0];
  if (loaded) return loaded;
  const mkl = /Math Kernel Library Version (\d+[\d.]*)/.exec(configuration)?.[1];
  return mkl ? `Intel MKL ${mkl}` : (/BLAS_INFO=(\w+)/.exec(configuration)?.[1] ?? "unknown");
}

function findPerformanceProblems({ blas, gpus, cuda, lowPrecision, auto }: EngineInfo): FoundProblem[] {
  const problems: FoundProblem[] = [];
  for (const precision of lowPrecisions) {
    const { failure } = lowPrecision[precision];
    if (failure === null) continue;
    problems.push({
      fatal: false,
      problem: `${precision} is off on this CPU: in its self-test, ${failure}.`,
      remedy:
        `Nothing needs to be done: \`auto\` uses ${auto.search} for attacks and ${auto.training} for training, and ` +
        `--precision ${precision} is rejected. If ONEDNN_MAX_CPU_ISA is set, remove it and run temper doctor again.`,
    });
  }
  // A libtorch of the system may use it: Debian and Ubuntu put it into a folder of this name.
  if (/\/blas\/libblas[^/]*$/.test(blas))
    problems.push({
      fatal: false,
      problem: "Matrix products use the reference BLAS, which is 30 times slower.",
      remedy: "Run as root: apt-get install libopenblas0-pthread",
    });
  if (gpus.length === 0 && existsSync("/proc/driver/nvidia/version"))
    problems.push({
      fatal: false,
      problem: "An NVIDIA driver is installed, but Temper cannot use a GPU.",
      remedy: cuda
        ? "Check the driver with nvidia-smi, and the variable CUDA_VISIBLE_DEVICES."
        : "Run `TEMPER_CUDA=1 npx temper setup` to build against a libtorch with CUDA.",
    });
  return problems;
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return null;
  }
}

async function isWritable(folder: string): Promise<boolean> {
  try {
    await mkdir(folder, { recursive: true });
    await access(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
