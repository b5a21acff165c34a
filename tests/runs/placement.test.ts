import { describe, expect, test } from "vitest";
import { createMethods } from "../../src/methods/index.js";
import { chooseGpuPrecision } from "../../src/runs/runtime-config.js";

const smart = (options: Record<string, unknown>) => createMethods([{ name: "smart", options }])[0];

describe("what a GPU computes in", () => {
  test("bf16 where nothing is said, tf32 where a method needs finer numbers, and what the user says in any case", () => {
    expect(chooseGpuPrecision(null, false)).toBe("bf16");
    expect(chooseGpuPrecision(null, true)).toBe("tf32");
    expect(chooseGpuPrecision("bf16", true)).toBe("bf16");
    expect(chooseGpuPrecision("fp32", false)).toBe("fp32");
  });

  test("smart needs float32 for the paper's perturbation, and not where it is large enough for bfloat16", () => {
    expect(smart({})?.requiresFloat32).toMatch(/1e-5|0\.00001/);
    expect(smart({ epsilon: 0.01 })?.requiresFloat32).toBeUndefined();
    expect(smart({ projection: "code" })?.requiresFloat32).toBeUndefined();
  });

  test("smart in bf16 that the user asked for is refused with the reason", () => {
    const run = { computeDtype: "bfloat16" } as Parameters<
      NonNullable<NonNullable<ReturnType<typeof smart>>["checkCompatibility"]>
    >[1];
    expect(smart({})?.checkCompatibility?.([], run)).toMatch(/vanishes in bfloat16; use precision: tf32 or fp32/);
    expect(smart({})?.checkCompatibility?.([], { ...run, computeDtype: "float32" })).toBeNull();
  });
});
