import { spawnSync } from "node:child_process";
import { constants, existsSync, readFileSync } from "node:fs";
import { access, mkdir } from "node:fs/promises";
import { availableParallelism, cpus, totalmem } from "node:os";
import { join } from "node:path";
import { getCacheFolder } from "../cache.js";
import { readHubSettings } from "../models/hub-connection.js";
import { type DeviceProperties, getBuildFolder, native, packageRoot } from "../tensor/native.js";

/** What stands in the way, and what to do about it. */
export interface Problem {
  /** True: nothing can be computed. False: it works, but could work better. */
  readonly fatal: boolean;
  readonly problem: string;
  readonly remedy: string;
}

/** Facts of the engine, once it is loaded. */
export interface EngineFacts {
  readonly libtorch: string;
  /** The library that is really in use. */
  readonly library: string;
  readonly source: string | null;
  readonly cuda: boolean;
  readonly blas: string;
  readonly capability: string | null;
  readonly threads: number;
  readonly gpus: readonly DeviceProperties[];
}

export interface Diagnosis {
  readonly usable: boolean;
  readonly temper: string;
  readonly node: string;
  readonly platform: string;
  readonly addon: string;
  /** Null where the engine does not load. */
  readonly engine: EngineFacts | null;
  readonly cpu: { readonly model: string; readonly cores: number };
  readonly memory: { readonly totalBytes: number; readonly availableBytes: number };
  readonly cache: { readonly folder: string; readonly hub: string };
  readonly problems: readonly Problem[];
}

const rebuildHint = "run `make setup` in the checkout, or `npx temper setup`";

/** Looks at everything Temper stands on. Never throws because of what it finds. */
export async function diagnose(): Promise<Diagnosis> {
  const addon = join(getBuildFolder(), "temper.node");
  const problems: Problem[] = [];
  const failure = findLoadFailure(addon);
  if (failure) problems.push({ fatal: true, ...failure });
  const engine = failure ? null : readEngineFacts();
  if (engine) problems.push(...findPerformanceProblems(engine));
  const cache = getCacheFolder();
  if (!(await isWritable(cache))) {
    problems.push({
      fatal: false,
      problem: `the cache folder ${cache} cannot be written`,
      remedy: "set TEMPER_CACHE to one that can",
    });
  }
  const { version } = readJson(join(packageRoot, "package.json")) as { version: string };
  return {
    usable: engine !== null,
    temper: version,
    node: process.versions.node,
    platform: `${process.platform} ${process.arch}`,
    addon,
    engine,
    cpu: { model: cpus()[0]?.model.trim() ?? "unknown", cores: availableParallelism() },
    memory: {
      totalBytes: Math.min(totalmem(), process.constrainedMemory() || Infinity),
      availableBytes: process.availableMemory(),
    },
    cache: { folder: cache, hub: readHubSettings().cache },
    problems,
  };
}

/** Why the addon does not load. Tried in another process first: a library made for another processor ends the one it is loaded in. */
function findLoadFailure(addon: string): Omit<Problem, "fatal"> | null {
  if (!existsSync(addon)) return { problem: `the engine is not built: ${addon} is missing`, remedy: rebuildHint };
  const verify = join(packageRoot, "scripts/setup/verify.cjs");
  const tried = spawnSync(process.execPath, [verify, addon], { encoding: "utf8", timeout: 120_000 });
  if (tried.status === 0) return null;
  const reason =
    tried.error?.message ??
    (tried.signal ? `it ends the process with ${tried.signal}` : tried.stderr.trim().split("\n").at(-1));
  return {
    problem: `the engine at ${addon} does not work: ${reason}`,
    remedy: `${rebuildHint}; \`--force\` builds it from scratch`,
  };
}

function readEngineFacts(): EngineFacts {
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
    threads: engine.getNumThreads(),
    gpus: engine.devices(),
  };
}

/** The library behind matrix products: one that is loaded by name tells the truth, else what libtorch was built with. */
function findBlasName(configuration: string): string {
  const maps = existsSync("/proc/self/maps") ? readFileSync("/proc/self/maps", "utf8") : "";
  const loaded = /\S*\/lib(?:openblas|mkl_rt|blis|blas)[^/\s]*\.so\S*/.exec(maps)?.[0];
  if (loaded) return loaded;
  const mkl = /Math Kernel Library Version (\d+[\d.]*)/.exec(configuration)?.[1];
  return mkl ? `Intel MKL ${mkl}` : (/BLAS_INFO=(\w+)/.exec(configuration)?.[1] ?? "unknown");
}

/** What works, but could work better. */
function findPerformanceProblems(engine: EngineFacts): Problem[] {
  const problems: Problem[] = [];
  // Debian's alternatives put the reference implementation into a folder of this name.
  if (/\/blas\/libblas[^/]*$/.test(engine.blas)) {
    const problem = "matrix products use the reference BLAS, which is 30 times slower";
    problems.push({ fatal: false, problem, remedy: "as root: apt-get install libopenblas0-pthread" });
  }
  if (engine.gpus.length > 0 || !existsSync("/proc/driver/nvidia/version")) return problems;
  const remedy = engine.cuda
    ? "check the driver with nvidia-smi, and CUDA_VISIBLE_DEVICES"
    : "`TEMPER_CUDA=1 npx temper setup` builds the engine against a libtorch with CUDA";
  problems.push({ fatal: false, problem: "an NVIDIA driver is here, but the engine cannot use a GPU", remedy });
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
  return mkdir(folder, { recursive: true })
    .then(() => access(folder, constants.W_OK))
    .then(
      () => true,
      () => false,
    );
}
