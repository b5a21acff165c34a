import { describe, expect, test } from "vitest";
import { createLayers } from "../../src/methods/index.js";
import { gpuPrecision } from "../../src/runs/placement.js";

const smart = (options: Record<string, unknown>) => createLayers([{ name: "smart", options }])[0];

describe("what a GPU computes in", () => {
  test("bf16 where nothing is said, tf32 where a method needs finer numbers, and what the user says in any case", () => {
    expect(gpuPrecision(null, false)).toBe("bf16");
    expect(gpuPrecision(null, true)).toBe("tf32");
    expect(gpuPrecision("bf16", true)).toBe("bf16");
    expect(gpuPrecision("fp32", false)).toBe("fp32");
  });

  test("smart needs float32 for the paper's perturbation, and not where it is large enough for bfloat16", () => {
    expect(smart({})?.needsFloat32).toMatch(/1e-5|0\.00001/);
    expect(smart({ epsilon: 0.01 })?.needsFloat32).toBeUndefined();
    expect(smart({ projection: "code" })?.needsFloat32).toBeUndefined();
  });

  test("smart in bf16 that the user asked for is refused with the reason", () => {
    const run = { compute: "bfloat16" } as Parameters<NonNullable<NonNullable<ReturnType<typeof smart>>["refuses"]>>[1];
    expect(smart({})?.refuses?.([], run)).toMatch(/vanishes in bfloat16; use precision: tf32 or fp32/);
    expect(smart({})?.refuses?.([], { ...run, compute: "float32" })).toBeNull();
  });
});
