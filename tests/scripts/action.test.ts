import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { readVerdict, runGate } from "../../scripts/action/gate.mjs";
import { checkIntegrity, readInstallInputs } from "../../scripts/action/install.mjs";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();

test("the action installs one exact version with a known integrity, outside of the workspace", () => {
  const archive = Buffer.from("package");
  const integrity = `sha512-${createHash("sha512").update(archive).digest("base64")}`;
  const env = {
    RUNNER_TEMP: "/tmp/runner",
    GITHUB_WORKSPACE: "/home/runner/repo",
    VERSION: "0.2.0",
    INTEGRITY: integrity,
  };
  expect(readInstallInputs(env)).toEqual({ folder: "/tmp/runner/temper-gate", version: "0.2.0", integrity });
  for (const VERSION of ["latest", "^0.2.0", "", "file:../evil", "0.2.0 --foreground-scripts"])
    expect(() => readInstallInputs({ ...env, VERSION })).toThrow("expected an exact version");
  for (const INTEGRITY of ["", "sha1-abc", "sha512-short"])
    expect(() => readInstallInputs({ ...env, INTEGRITY })).toThrow("npm view temper-nlp@0.2.0 dist.integrity");
  expect(() => readInstallInputs({ ...env, RUNNER_TEMP: "/home/runner/repo/tmp" })).toThrow("inside of the workspace");
  checkIntegrity(archive, integrity);
  expect(() => checkIntegrity(Buffer.from("changed"), integrity)).toThrow("expected sha512-");
  const script = readFileSync("scripts/action/install.mjs", "utf8");
  expect(script.match(/"npm", \[[^\]]*\]/g)!.every((command) => command.includes('"--ignore-scripts"'))).toBe(true);
  const steps = parse(readFileSync("action.yml", "utf8")).runs.steps as { run?: string }[];
  expect(steps.flatMap(({ run }) => run ?? []).every((run) => !run.includes("${{"))).toBe(true);
});

test("only the three known verdicts of this run are published", () => {
  const write = (verdict: unknown): void => writeFileSync(join(folder, "gate.json"), JSON.stringify({ verdict }));
  for (const [verdict, code] of [
    ["passed", 0],
    ["regressed", 1],
    ["unresolved", 2],
  ] as const) {
    write(verdict);
    expect(readVerdict(folder, code)).toBe(verdict);
    expect(readVerdict(folder, 3)).toBeNull();
  }
  for (const forged of ["passed\nadmin=true", "PASSED", "toString", null, ["passed"], ["passed", ""], 0]) {
    write(forged);
    expect(readVerdict(folder, 0)).toBeNull();
  }
  writeFileSync(join(folder, "gate.json"), "{");
  expect(readVerdict(folder, 0)).toBeNull();
});

test("results of an earlier gate are removed before the gate runs", () => {
  const results = join(folder, "temper-gate-results");
  mkdirSync(results);
  writeFileSync(join(results, "gate.json"), JSON.stringify({ verdict: "passed" }));
  writeFileSync(join(results, "summary.md"), "stale");
  const [GITHUB_OUTPUT, GITHUB_STEP_SUMMARY] = [join(folder, "output"), join(folder, "summary")];
  const env = { RUNNER_TEMP: folder, MODEL: "m", BASELINE: "b", MAX_DROP: "2", GITHUB_OUTPUT, GITHUB_STEP_SUMMARY };
  expect(runGate(env, [process.execPath, "-e", "process.exit(0)"])).toBe(0);
  expect([existsSync(GITHUB_OUTPUT), existsSync(GITHUB_STEP_SUMMARY), existsSync(results)]).toEqual([
    false,
    false,
    false,
  ]);
});
