import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import type { Diagnosis } from "../../src/actions/doctor.js";
import { temporaryFolder } from "../temporary.js";
import { invoke } from "./invoke.js";

const folder = temporaryFolder();

afterEach(() => vi.unstubAllEnvs());

test("describes a working installation", async () => {
  const { code, stdout, stderr } = await invoke(["doctor", "--json"]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const diagnosis = JSON.parse(stdout) as Diagnosis;
  expect(diagnosis).toMatchObject({
    usable: true,
    node: process.versions.node,
    platform: `${process.platform} ${process.arch}`,
  });
  expect(diagnosis.engine?.libtorch).toMatch(/^\d+\.\d+\.\d+/);
  expect(diagnosis.engine?.library).toMatch(/^\/.*libtorch_cpu/);
  expect(diagnosis.engine?.blas).toMatch(/mkl|blas|blis/i);
  expect(diagnosis.engine?.threads).toBeGreaterThan(0);
  expect(diagnosis.cpu.cores).toBeGreaterThan(0);
  expect(diagnosis.memory.availableBytes).toBeLessThanOrEqual(diagnosis.memory.totalBytes);
  expect(diagnosis.problems.filter(({ fatal }) => fatal)).toEqual([]);
  const { stdout: text } = await invoke(["doctor"]);
  expect(text).toContain(diagnosis.engine!.library);
  expect(text).toContain("The installation works.");
});

test("explains a missing addon", async () => {
  vi.stubEnv("TEMPER_BUILD", join(folder, "nowhere"));
  const { code, stdout } = await invoke(["doctor"]);
  expect(code).toBe(2);
  expect(stdout).toMatch(
    /The native addon is not built: .*nowhere\/temper\.node is missing\.\n {2}→ Run `npx temper setup`/,
  );
  expect(stdout).toContain("Exported (ONNX) models work. The rest does not.");
});

test("explains an addon that does not load", async () => {
  vi.stubEnv("TEMPER_BUILD", join(folder, "broken"));
  mkdirSync(join(folder, "broken"));
  writeFileSync(join(folder, "broken/temper.node"), "not a library");
  const { code, stdout } = await invoke(["doctor", "--json"]);
  expect(code).toBe(2);
  const diagnosis = JSON.parse(stdout) as Diagnosis;
  expect(diagnosis).toMatchObject({ usable: false, engine: null });
  expect(diagnosis.problems[0]).toMatchObject({
    fatal: true,
    problem: expect.stringContaining("does not work: Error: "),
  });
});

test("a cache folder that is not writable is only a warning", async () => {
  const file = join(folder, "file");
  writeFileSync(file, "");
  vi.stubEnv("TEMPER_CACHE", join(file, "cache"));
  const { code, stdout } = await invoke(["doctor", "--json"]);
  expect(code).toBe(0);
  expect((JSON.parse(stdout) as Diagnosis).problems).toContainEqual({
    fatal: false,
    problem: `The cache folder ${join(file, "cache")} is not writable.`,
    remedy: "Set TEMPER_CACHE to a writable folder.",
  });
});
