import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { listNumericTests } from "../../tools/cpus/list-tests.mjs";
import { formatRepeatCommand } from "../../tools/cpus/repeat-command.mjs";

test("the tests that touch numbers are found through what they load", () => {
  const found = listNumericTests();
  const numeric = [
    // By an import, by an import of an import, by the name of the package, and by the name of a program.
    "tests/tensor/native.test.ts",
    "tests/methods/rose/rose.test.ts",
    "tests/examples/examples.test.ts",
    "tests/scripts/released-parity.test.ts",
  ];
  expect(found).toEqual(expect.arrayContaining(numeric));
  for (const file of ["tests/text/words.test.ts", "tests/scripts/setup/find.test.ts", "tests/studio/browser.test.ts"])
    expect(found).not.toContain(file);
});

test("a failed test is repeated with the variables that were set", () => {
  const env = { TEMPER_JITTER: "7", OMP_NUM_THREADS: "2", HOME: "/root" };
  expect(formatRepeatCommand(env, "tests/a.test.ts", ["it's (a)", "adds 1 + 1"])).toBe(
    "OMP_NUM_THREADS=2 TEMPER_JITTER=7 npx vitest run tests/a.test.ts -t 'it'\\''s \\(a\\) adds 1 \\+ 1'",
  );
  expect(formatRepeatCommand(env, "tests/a.test.ts")).toBe(
    "OMP_NUM_THREADS=2 TEMPER_JITTER=7 npx vitest run tests/a.test.ts",
  );
  expect(formatRepeatCommand({}, "tests/a.test.ts", ["x"])).toBeNull();
});

test("an unknown setting is an error that lists the settings", () => {
  const { status, stderr } = spawnSync(process.execPath, ["tools/test-cpus.mjs", "avx3"], { encoding: "utf8" });
  expect(status).toBe(2);
  expect(stderr).toMatch(/^avx3: expected a test file, .*threads-N, jitter-N or one of: aten-default, /);
});
