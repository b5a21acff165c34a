import { readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { inspectLibtorch, isAtLeast } from "../../../scripts/setup/inspect.mjs";
import { getLoadFailure, probeLibtorch } from "../../../scripts/setup/probe.mjs";
import { environment, NEW_ABI, OLD_ABI, put, putLibtorch, temporaryFolder } from "./trees.js";

const env = environment("/nowhere");

describe("inspectLibtorch", () => {
  it("reads the version from the headers and the ABI from the symbols", () => {
    const root = temporaryFolder();
    const modern = putLibtorch(join(root, "new"), { symbols: `${OLD_ABI.slice(0, -4)}S2_\0${NEW_ABI}` });
    const old = putLibtorch(join(root, "old"), { version: "2.11.0", symbols: OLD_ABI });
    expect(inspectLibtorch(modern, "LIBTORCH", env)).toMatchObject({
      version: "2.15.0",
      cxx11Abi: true,
      cuda: undefined,
    });
    expect(inspectLibtorch(old, "LIBTORCH", env)).toMatchObject({
      version: "2.11.0",
      cxx11Abi: false,
      libraryFolder: join(old, "lib"),
    });
  });

  it("compares versions numerically", () => {
    expect(isAtLeast("2.11.1", "2.11")).toBe(true);
    expect(isAtLeast("2.9.1", "2.11")).toBe(false);
    expect(isAtLeast("2.15.0", "2")).toBe(true);
  });

  it.each([
    ["include/ATen/ATen.h", /headers are missing/],
    ["lib/libtorch_cpu.so", /libraries are missing \(lib\/libtorch_cpu.so\)/],
    ["lib/libc10.so", /libraries are missing \(lib\/libc10.so\)/],
    ["include/torch/csrc/api/include/torch/version.h", /do not contain a version/],
  ])("throws if %s is missing", (file, message) => {
    const folder = putLibtorch(temporaryFolder());
    rmSync(join(folder, file));
    expect(() => inspectLibtorch(folder, "LIBTORCH", env)).toThrow(message);
  });

  it("rejects a libtorch that is too old, and a libc10 without symbols", () => {
    const old = putLibtorch(temporaryFolder(), { version: "1.13.1" });
    expect(() => inspectLibtorch(old, "python", env)).toThrow("it is version 1.13.1; 2.11 or newer is required");
    const empty = putLibtorch(temporaryFolder(), { symbols: "" });
    expect(() => inspectLibtorch(empty, "python", env)).toThrow(/libc10.so is damaged/);
  });
});

describe("a GPU build", () => {
  const forced = environment("/nowhere", { TEMPER_CUDA: "1", CUDA_HOME: "/nowhere" });

  function putCuda(major: number) {
    const site = temporaryFolder();
    const torch = putLibtorch(join(site, "torch"));
    for (const name of ["libtorch_cuda.so", "libc10_cuda.so"]) put(join(torch, "lib", name));
    put(join(site, "nvidia/cu13/lib/libcudart.so.13"));
    put(join(site, "nvidia/cu13/include/cuda_runtime_api.h"), `#define CUDART_VERSION  ${major}020\n`);
    for (const name of ["crt/host_defines.h", "cccl/nv/target", "cublas_v2.h", "cusparse.h", "cusolverDn.h"]) {
      put(join(site, "nvidia/cu13/include", name));
    }
    return { site, torch };
  }

  it("needs libraries, a runtime and headers of the same major version", () => {
    const { site, torch } = putCuda(13);
    expect(inspectLibtorch(torch, "venv", forced).cuda).toEqual({
      includes: [join(site, "nvidia/cu13/include"), join(site, "nvidia/cu13/include/cccl")],
      runtime: join(site, "nvidia/cu13/lib/libcudart.so.13"),
    });
    expect(inspectLibtorch(torch, "venv", env).cuda).toBeUndefined();
    expect(() => inspectLibtorch(putCuda(12).torch, "venv", forced)).toThrow(/CUDA's headers/);
  });

  it.each([
    ["torch/lib/libtorch_cuda.so", /built for the CPU only \(no libtorch_cuda.so\)/],
    ["nvidia/cu13/include/crt/host_defines.h", /pip install "cuda-toolkit/],
    ["nvidia/cu13/include/cccl/nv/target", /headers were not found/],
    ["nvidia/cu13/lib/libcudart.so.13", /runtime \(libcudart.so\) was not found/],
  ])("is rejected without %s", (file, message) => {
    const { site, torch } = putCuda(13);
    rmSync(join(site, file));
    expect(() => inspectLibtorch(torch, "venv", forced)).toThrow(message);
  });
});

describe("probeLibtorch", () => {
  function putWheel() {
    const site = temporaryFolder();
    const torch = putLibtorch(join(site, "torch"));
    const record = put(
      join(site, "torch-2.15.0.dist-info/RECORD"),
      "torch/include/ATen/ATen.h,sha256=x,0\ntorch/lib/libtorch_cpu.so,sha256=x,3\n",
    );
    return { torch, record, probe: () => probeLibtorch(inspectLibtorch(torch, "venv", env)) };
  }

  it("detects an interrupted pip: no record, missing or truncated files", () => {
    const { torch, record, probe } = putWheel();
    truncateSync(join(torch, "lib/libtorch_cpu.so"), 2);
    expect(probe).toThrow("torch/lib/libtorch_cpu.so has 2 bytes instead of 3");
    writeFileSync(record, `${readFileSync(record)}torch/include/c10/util/Half.h,sha256=x,7\n`);
    writeFileSync(join(torch, "lib/libtorch_cpu.so"), "cpu");
    expect(probe).toThrow("torch/include/c10/util/Half.h is missing");
    rmSync(record);
    expect(probe).toThrow("its installation was interrupted");
  });

  it("detects a library that does not load", () => {
    expect(putWheel().probe).toThrow(/^libtorch_cpu.so does not load: .*(file too short|ELF)/);
  });

  it("accepts a library that loads", () => {
    const library = readFileSync("/proc/self/maps", "utf8").match(/\/\S*\/libm[.-]\S+/)?.[0];
    expect(getLoadFailure(library!)).toBeUndefined();
  });
});
