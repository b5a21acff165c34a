import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import type { Diagnosis } from "../../src/cli/diagnosis.js";
import { temporaryFolder } from "../temporary.js";
import { invoke } from "./invoke.js";

const folder = temporaryFolder();

afterEach(() => vi.unstubAllEnvs());

test("tells what the engine runs on", async () => {
  const { code, stdout, stderr } = await invoke(["doctor", "--json"]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const facts = JSON.parse(stdout) as Diagnosis;
  expect(facts).toMatchObject({
    usable: true,
    node: process.versions.node,
    platform: `${process.platform} ${process.arch}`,
  });
  expect(facts.engine?.libtorch).toMatch(/^\d+\.\d+\.\d+/);
  expect(facts.engine?.library).toMatch(/^\/.*libtorch_cpu/);
  expect(facts.engine?.blas).toMatch(/mkl|blas|blis/i);
  expect(facts.engine?.threads).toBeGreaterThan(0);
  expect(facts.cpu.cores).toBeGreaterThan(0);
  expect(facts.memory.availableBytes).toBeLessThanOrEqual(facts.memory.totalBytes);
  expect(facts.problems.filter(({ fatal }) => fatal)).toEqual([]);
  const { stdout: text } = await invoke(["doctor"]);
  expect(text).toContain(facts.engine!.library);
  expect(text).toContain("The engine works.");
});

test("explains an engine that is not built", async () => {
  vi.stubEnv("TEMPER_BUILD", join(folder, "nowhere"));
  const { code, stdout } = await invoke(["doctor"]);
  expect(code).toBe(2);
  expect(stdout).toMatch(/the engine is not built: .*nowhere\/temper\.node is missing\n {2}→ run `make setup`/);
});

test("explains an engine that does not load", async () => {
  vi.stubEnv("TEMPER_BUILD", join(folder, "broken"));
  mkdirSync(join(folder, "broken"));
  writeFileSync(join(folder, "broken/temper.node"), "not a library");
  const { code, stdout } = await invoke(["doctor", "--json"]);
  expect(code).toBe(2);
  const facts = JSON.parse(stdout) as Diagnosis;
  expect(facts).toMatchObject({ usable: false, engine: null });
  expect(facts.problems[0]).toMatchObject({ fatal: true, problem: expect.stringContaining("does not work: Error: ") });
});

test("a cache folder that cannot be written is a shortcoming, not a failure", async () => {
  const file = join(folder, "file");
  writeFileSync(file, "");
  vi.stubEnv("TEMPER_CACHE", join(file, "cache"));
  const { code, stdout } = await invoke(["doctor", "--json"]);
  expect(code).toBe(0);
  expect((JSON.parse(stdout) as Diagnosis).problems).toContainEqual({
    fatal: false,
    problem: `the cache folder ${join(file, "cache")} cannot be written`,
    remedy: "set TEMPER_CACHE to one that can",
  });
});
