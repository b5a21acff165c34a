import { describe, expect, test } from "vitest";
import { findCpuSupport } from "../../src/tensor/index.js";

const flags = (...names: string[]) => new Set(names);
const epyc = flags("avx2", "avx512f", "avx512_vnni", "avx512_bf16");

describe("low precision on a CPU", () => {
  test.each([
    ["AVX-512 with both", epyc, "AVX512", undefined, { bf16: true, int8: true }],
    ["AVX-512 without bf16", flags("avx512f", "avx512_vnni"), "AVX512", undefined, { bf16: false, int8: true }],
    ["AMX", flags("amx_bf16", "amx_int8"), "AVX512", undefined, { bf16: true, int8: true }],
    ["AVX2", flags("avx2", "avx_vnni"), "AVX2", undefined, { bf16: false, int8: false }],
    ["ATEN_CPU_CAPABILITY=avx2", epyc, "AVX2", undefined, { bf16: false, int8: false }],
    ["ATEN_CPU_CAPABILITY=default", epyc, "DEFAULT", undefined, { bf16: false, int8: false }],
    ["ONEDNN_MAX_CPU_ISA=AVX2", epyc, "AVX512", "AVX2", { bf16: false, int8: false }],
    ["ONEDNN_MAX_CPU_ISA=avx512_core_vnni", epyc, "AVX512", "avx512_core_vnni", { bf16: false, int8: true }],
    ["ONEDNN_MAX_CPU_ISA=DEFAULT", epyc, "AVX512", "DEFAULT", { bf16: true, int8: true }],
    ["another system", flags(), "", undefined, { bf16: false, int8: false }],
  ])("%s", (_, found, capability, maxIsa, expected) => {
    expect(findCpuSupport({ flags: found, capability, maxIsa })).toEqual(expected);
  });
});
