import { readFileSync } from "node:fs";
import { native } from "./native.js";

/** The low precisions for which a CPU has fast instructions. */
export interface CpuSupport {
  readonly bf16: boolean;
  readonly int8: boolean;
}

/** What the precisions of a CPU depend on. */
export interface CpuFacts {
  /** The instruction sets of the processor, as Linux names them. */
  readonly flags: ReadonlySet<string>;
  /** The instruction set that libtorch uses, which ATEN_CPU_CAPABILITY can lower. */
  readonly capability: string;
  /** The instruction set that oneDNN may use at most (ONEDNN_MAX_CPU_ISA); undefined: all. */
  readonly maxIsa: string | undefined;
}

/** The values of ONEDNN_MAX_CPU_ISA without fast products in 8 bits. */
const isasWithoutInt8 = new Set(["SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE"]);
const isasWithoutBf16 = new Set([...isasWithoutInt8, "AVX512_CORE_VNNI"]);

/** Decides which low precisions are faster than float32. */
export function findCpuSupport({ flags, capability, maxIsa }: CpuFacts): CpuSupport {
  const hasVectors = /^AVX(512|10)/i.test(capability);
  const isa = maxIsa?.toUpperCase() ?? "";
  const has = (names: readonly string[]): boolean => names.some((name) => flags.has(name));
  return {
    bf16: hasVectors && has(["avx512_bf16", "amx_bf16"]) && !isasWithoutBf16.has(isa),
    int8: hasVectors && has(["avx512_vnni", "amx_int8"]) && !isasWithoutInt8.has(isa),
  };
}

function readCpuFacts(): CpuFacts {
  const flags = /^flags\s*:(.*)$/m.exec(readCpuInfo())?.[1] ?? "";
  return {
    flags: new Set(flags.trim().split(/\s+/)),
    capability: /CPU capability usage: (\S+)/.exec(native().versions().configuration)?.[1] ?? "",
    maxIsa: process.env.ONEDNN_MAX_CPU_ISA ?? process.env.DNNL_MAX_CPU_ISA,
  };
}

function readCpuInfo(): string {
  try {
    return readFileSync("/proc/cpuinfo", "utf8");
  } catch {
    return "";
  }
}

/** Returns the low precisions for which this CPU has fast instructions. */
export function getCpuSupport(): CpuSupport {
  return findCpuSupport(readCpuFacts());
}
