import { type CpuFeatures, native } from "./native.js";

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
    features: addon.cpuFeatures(addon.cpuid()),
    capability: /CPU capability usage: (\S+)/.exec(addon.versions().configuration)?.[1] ?? "",
    isaLimit: addon.isaLimit(),
  });
}
