import { readdirSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { computeDropoutMask } from "../../src/nn/dropout.js";
import { scope, tensor } from "../../src/tensor/index.js";
import { compileKernels, findNvrtc, type KernelFile, kernelFiles, listNvrtcFolders } from "../../src/tensor/kernels.js";
import { packageRoot } from "../../src/tensor/native.js";

/** Looks for NVRTC next to libtorch, in a CUDA toolkit and in TEMPER_NVRTC. */
function locateNvrtc() {
  const environments = [join(packageRoot, ".venv"), join(packageRoot, ".torch"), join(homedir(), ".venv")];
  const sites = environments.flatMap((folder) => {
    try {
      return readdirSync(join(folder, "lib")).map((name) => join(folder, "lib", name, "site-packages/torch"));
    } catch {
      return [];
    }
  });
  return findNvrtc([process.env.TEMPER_NVRTC ?? "", ...sites.flatMap(listNvrtcFolders)]);
}

const nvrtc = locateNvrtc();

describe.skipIf(!nvrtc)(
  `fused kernels${nvrtc ? "" : " (skipped: pip install nvidia-cuda-nvrtc, or set TEMPER_NVRTC)"}`,
  () => {
    const cases = (Object.keys(kernelFiles) as KernelFile[]).flatMap((file) =>
      (["bfloat16", "float32"] as const).map(
        (dtype) => [file, dtype, file.startsWith("attention") ? 64 : 768] as const,
      ),
    );

    it.each(cases)("%s compiles for %s without a GPU", (file, dtype, width) => {
      const code = Buffer.from(compileKernels(nvrtc!, file, width, dtype, "sm_90"));
      expect(code.subarray(1, 4).toString()).toBe("ELF");
    });

    it("an error has the file and the line", () => {
      expect(() => compileKernels(nvrtc!, "dropout", 0, "float32", "sm_1")).toThrow(/could not compile dropout\.cu/);
    });
  },
);

describe("dropout masks from a seed", () => {
  /** splitmix64 as published, in exact integers. */
  function randomWord(seed: bigint, i: bigint): bigint {
    const wrap = (value: bigint): bigint => BigInt.asUintN(64, value);
    let z = wrap(seed + (i + 1n) * 0x9e3779b97f4a7c15n);
    z = wrap((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
    z = wrap((z ^ (z >> 27n)) * 0x94d049bb133111ebn);
    return z ^ (z >> 31n);
  }

  it("libtorch's operators compute splitmix64 exactly", () => {
    const [seed, p, count] = [7_000_000_000_000_001, 0.3, 1001];
    const limit = BigInt(Math.floor(p * 2 ** 32));
    const expected = Array.from({ length: count }, (_, i) => {
      const word = randomWord(BigInt(seed), BigInt(i >> 1));
      return (i % 2 ? word >> 32n : word & 0xffffffffn) >= limit ? Math.fround(1 / (1 - p)) : 0;
    });
    const mask = scope(() => {
      const seedTensor = tensor(Int32Array.of(7_000_000), [1], { dtype: "int64" }).mul(1_000_000_000).add(1);
      return [...computeDropoutMask([7, 143], seedTensor, p).toFloat32Array()];
    });
    expect(mask).toEqual(expected);
  });
});
