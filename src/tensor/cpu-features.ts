/** The CPUID words that the choice of instructions depends on. A leaf that does not exist is 0. */
export interface CpuidWords {
  leaf7Ebx: number;
  leaf7Ecx: number;
  leaf7Edx: number;
  /** Register eax of subleaf 1. */
  leaf7Sub1Eax: number;
  /** Register eax of leaf 0x1D: the number of the last tile palette. */
  leaf1dEax: number;
  /** The registers that the operating system saves. */
  xcr0: number;
}

export interface CpuFeatures {
  readonly vnni: boolean;
  readonly bf16: boolean;
  readonly amx: boolean;
  /** The highest level of oneDNN that does not crash; null if oneDNN can choose by itself. */
  readonly isaLimit: string | null;
}

/**
 * Some hypervisors report AMX but no tile palette. oneDNN then configures palette 0, and its first
 * tile instruction is illegal. So AMX is off unless there is a palette.
 */
export function findCpuFeatures(words: CpuidWords): CpuFeatures {
  const { leaf7Ebx, leaf7Ecx, leaf7Edx, leaf7Sub1Eax, leaf1dEax, xcr0 } = words;
  const has = (word: number, ...bits: number[]): boolean => bits.every((bit) => (word >>> bit) & 1);
  // XCR0: bits 1 and 2 are AVX, 5 to 7 AVX-512, 17 and 18 tiles.
  const avx512 = has(xcr0, 1, 2, 5, 6, 7) && has(leaf7Ebx, 16);
  const bf16 = avx512 && has(leaf7Sub1Eax, 5);
  const fp16 = avx512 && has(leaf7Edx, 23);
  const reportsAmx = has(leaf7Edx, 24);
  const hasPalette = leaf1dEax > 0;
  const limit = fp16 ? "AVX512_CORE_FP16" : bf16 ? "AVX512_CORE_BF16" : "AVX512_CORE_VNNI";
  return {
    vnni: avx512 && has(leaf7Ecx, 11),
    bf16,
    amx: avx512 && reportsAmx && hasPalette && has(xcr0, 17, 18),
    isaLimit: reportsAmx && !hasPalette ? limit : null,
  };
}

/** The level of instructions that oneDNN obeys; null: all. The current name of the variable counts before the old one. */
export function readIsaLimit(): string | null {
  return process.env.ONEDNN_MAX_CPU_ISA ?? process.env.DNNL_MAX_CPU_ISA ?? null;
}
