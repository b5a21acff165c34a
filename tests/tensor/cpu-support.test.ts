import { describe, expect, test } from "vitest";
import { type CpuidWords, findCpuFeatures, readIsaLimit } from "../../src/tensor/cpu-features.js";
import { findCpuSupport } from "../../src/tensor/index.js";
import { native } from "../../src/tensor/native.js";

const bit = (...numbers: number[]): number => numbers.reduce((sum, number) => sum + 2 ** number, 0);

/** The words as Intel's and AMD's manuals define them. */
const none: CpuidWords = { leaf7Ebx: 0, leaf7Ecx: 0, leaf7Edx: 0, leaf7Sub1Eax: 0, leaf1dEax: 0, xcr0: 0 };
const avx2: CpuidWords = { ...none, leaf7Ebx: bit(5), xcr0: 0x7 };
const cascadeLake: CpuidWords = { ...avx2, leaf7Ebx: bit(5, 16), leaf7Ecx: bit(11), xcr0: 0xe7 };
const zen4: CpuidWords = { ...cascadeLake, leaf7Sub1Eax: bit(5) };
/** A Xeon with AMX, as a virtual machine without tile palettes reports it. */
const brokenAmx: CpuidWords = {
  leaf7Ebx: 0xf1bf2ffb,
  leaf7Ecx: 0x1a415f46,
  leaf7Edx: 0x23c14010,
  leaf7Sub1Eax: 0x1c30,
  leaf1dEax: 0,
  xcr0: 0x600e7,
};
const sapphireRapids: CpuidWords = { ...brokenAmx, leaf1dEax: 1 };

const noFeatures = { vnni: false, bf16: false, amx: false, isaLimit: null };
const intelVectors = { vnni: true, bf16: true };

describe("the features of a CPU", () => {
  test.each([
    ["AMX without palettes", brokenAmx, { ...intelVectors, isaLimit: "AVX512_CORE_FP16" }],
    ["AMX", sapphireRapids, { ...intelVectors, amx: true }],
    ["AMX that the operating system does not save", { ...sapphireRapids, xcr0: 0xe7 }, intelVectors],
    [
      "AMX without palettes and without fp16",
      { ...brokenAmx, leaf7Edx: bit(22, 24, 25) },
      { ...intelVectors, isaLimit: "AVX512_CORE_BF16" },
    ],
    ["AVX-512 with bf16 (AMD Zen 4)", zen4, intelVectors],
    ["AVX-512 without bf16", cascadeLake, { vnni: true }],
    ["AVX-512 that the operating system does not save", { ...zen4, xcr0: 0x7 }, {}],
    ["AVX2 (Intel Haswell, AMD Zen 2)", avx2, {}],
    ["another processor", none, {}],
  ])("%s", (_, words, expected) => {
    expect(findCpuFeatures(words)).toEqual({ ...noFeatures, ...expected });
  });

  test("the addon limits oneDNN on this CPU if it must, and only then", () => {
    const words = native().cpuid();
    expect(Object.keys(words).sort()).toEqual(Object.keys(none).sort());
    if (findCpuFeatures(words).isaLimit !== null) expect(readIsaLimit()).not.toBeNull();
  });
});

describe("low precision on a CPU", () => {
  test.each([
    ["AVX-512 with both", zen4, "AVX512", null, { bf16: true, int8: true }],
    ["AVX-512 without bf16", cascadeLake, "AVX512", null, { bf16: false, int8: true }],
    ["AMX", sapphireRapids, "AVX512", null, { bf16: true, int8: true }],
    ["AMX without palettes", brokenAmx, "AVX512", "AVX512_CORE_FP16", { bf16: true, int8: true }],
    ["AVX2", avx2, "AVX2", null, { bf16: false, int8: false }],
    ["ATEN_CPU_CAPABILITY=avx2", zen4, "AVX2", null, { bf16: false, int8: false }],
    ["ATEN_CPU_CAPABILITY=default", zen4, "DEFAULT", null, { bf16: false, int8: false }],
    ["ONEDNN_MAX_CPU_ISA=AVX2", zen4, "AVX512", "AVX2", { bf16: false, int8: false }],
    ["ONEDNN_MAX_CPU_ISA=avx512_core_vnni", zen4, "AVX512", "avx512_core_vnni", { bf16: false, int8: true }],
    ["ONEDNN_MAX_CPU_ISA=DEFAULT", zen4, "AVX512", "DEFAULT", { bf16: true, int8: true }],
    ["another system", none, "", null, { bf16: false, int8: false }],
  ])("%s", (_, words, capability, isaLimit, expected) => {
    expect(findCpuSupport({ features: findCpuFeatures(words), capability, isaLimit })).toEqual(expected);
  });
});
