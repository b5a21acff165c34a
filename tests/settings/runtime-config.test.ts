import { describe, expect, test } from "vitest";
import { createMethods } from "../../src/methods/index.js";
import { canPrepare } from "../../src/nn/index.js";
import { chooseCpuPrecision, chooseGpuPrecision, resolveRuntime } from "../../src/settings/runtime-config.js";
import { chooseFastestPrecision, getPrecisionVerdict } from "../../src/tensor/index.js";

const createSmart = (options: Record<string, unknown>) => createMethods([{ name: "smart", options }])[0];

describe("precision", () => {
  test("a GPU uses bf16, or tf32 if a method needs float32, or what the user sets", () => {
    expect(chooseGpuPrecision(null, false)).toBe("bf16");
    expect(chooseGpuPrecision(null, true)).toBe("tf32");
    expect(chooseGpuPrecision("bf16", true)).toBe("bf16");
    expect(chooseGpuPrecision("fp32", false)).toBe("fp32");
  });

  test("a CPU uses fp32 and rejects tf32", () => {
    expect(resolveRuntime({ device: "cpu", threads: 3 })).toEqual({
      device: "cpu",
      computeDtype: "float32",
      precision: "fp32",
      threads: 3,
    });
    expect(() => resolveRuntime({ device: "cpu", precision: "tf32" })).toThrow("tf32 is for GPUs");
    expect(() => chooseGpuPrecision("int8", false)).toThrow("int8 is for CPUs");
  });

  test("a CPU uses a lower precision only if it is named, and auto only if a method does not need float32", () => {
    expect(chooseCpuPrecision(null)).toBe("fp32");
    expect(chooseCpuPrecision("bf16")).toBe("bf16");
    expect(chooseCpuPrecision("auto", { use: "training", requiresFloat32: true })).toBe("fp32");
    const fastest = chooseFastestPrecision(getPrecisionVerdict, "training");
    expect(resolveRuntime({ device: "cpu", precision: "auto" }, { use: "training" }).precision).toBe(fastest);
  });

  const works = (search: number, inference: number | null = null, training: number | null = null) => {
    return { failure: null, search, inference, training };
  };
  const off = { failure: "libtorch crashed with SIGILL", search: null, inference: null, training: null };
  test.each([
    ["AMX", { bf16: works(3.1, 3.8, 2.1), int8: works(3) }, ["bf16", "bf16", "bf16"]],
    ["AVX-512 with slow bf16", { bf16: works(0.6, 0.7, 0.5), int8: works(2.7) }, ["int8", "fp32", "fp32"]],
    ["bf16 is fast in inference only", { bf16: works(1.1, 1.5, 0.9), int8: works(1.1) }, ["fp32", "bf16", "fp32"]],
    ["hardly faster", { bf16: works(1.1, 1.1, 1.1), int8: works(1.1) }, ["fp32", "fp32", "fp32"]],
    ["bf16 crashes", { bf16: off, int8: works(2.7) }, ["int8", "fp32", "fp32"]],
    ["both crash", { bf16: off, int8: off }, ["fp32", "fp32", "fp32"]],
  ])("auto is the fastest precision that works: %s", (_, verdicts, expected) => {
    const uses = ["search", "inference", "training"] as const;
    expect(uses.map((use) => chooseFastestPrecision((precision) => verdicts[precision], use))).toEqual(expected);
  });

  test.runIf(canPrepare("int8"))("int8 computes dense layers in 8 bits and the rest in float32", () => {
    expect(resolveRuntime({ device: "cpu", precision: "int8" })).toMatchObject({
      ...{ computeDtype: "float32", isQuantized: true, precision: "int8" },
    });
  });

  test("smart needs float32 for the paper's perturbation, but not for a larger one", () => {
    expect(createSmart({})?.traits?.requiresFloat32).toMatch(/1e-5|0\.00001/);
    expect(createSmart({ epsilon: 0.01 })?.traits?.requiresFloat32).toBeUndefined();
    expect(createSmart({ projection: "code" })?.traits?.requiresFloat32).toBeUndefined();
  });

  test("smart rejects bf16 with the reason", () => {
    type Job = Parameters<NonNullable<NonNullable<ReturnType<typeof createSmart>>["checkCompatibility"]>>[1];
    const check = (computeDtype: string) =>
      createSmart({})?.checkCompatibility?.([], { deviceConfig: { computeDtype } } as Job);
    expect(check("bfloat16")).toMatch(/bfloat16.*tf32 or fp32/);
    expect(check("float32")).toBeNull();
  });
});
