import { describe, expect, test } from "vitest";
import { createMethods } from "../../src/methods/index.js";
import { canPrepare } from "../../src/nn/index.js";
import { chooseCpuPrecision, chooseGpuPrecision, resolveRuntime } from "../../src/runs/runtime-config.js";

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

  test("a CPU uses a lower precision only if it is named, and bf16 only with its instructions", () => {
    const [both, none] = [
      { bf16: true, int8: true },
      { bf16: false, int8: false },
    ];
    expect(chooseCpuPrecision(null, both)).toBe("fp32");
    expect(chooseCpuPrecision("bf16", both)).toBe("bf16");
    expect(() => chooseCpuPrecision("bf16", none)).toThrow(/bf16 needs a CPU with avx512_bf16 or amx_bf16/);
  });

  test("auto is bf16, int8 or fp32, whichever the CPU has instructions for", () => {
    expect(chooseCpuPrecision("auto", { bf16: true, int8: true })).toBe("bf16");
    expect(chooseCpuPrecision("auto", { bf16: false, int8: true })).toBe(canPrepare("int8") ? "int8" : "fp32");
    expect(chooseCpuPrecision("auto", { bf16: false, int8: false })).toBe("fp32");
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
