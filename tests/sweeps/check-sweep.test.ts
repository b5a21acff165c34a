import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { getError, invoke } from "../cli/invoke.js";
import { temporaryFolder } from "../temporary.js";
import { writeTinySweep } from "./tiny-sweep.js";

const folder = temporaryFolder();

/** What a sweep and its dry run say before anything is trained. */
async function getErrors(changes: Record<string, unknown>): Promise<string[]> {
  const file = await writeTinySweep(folder, changes);
  const out = join(folder, "out");
  const errors: string[] = [];
  for (const flags of [["--dry-run", "--no-estimate"], ["--no-estimate"]]) {
    errors.push(await getError(["sweep", file, "--out", out, ...flags]));
    expect(existsSync(out)).toBe(false);
  }
  return errors;
}

test("attacks without substitutions are rejected before the first run", async () => {
  const evaluation = { attacks: ["pwws"], numExamples: 4 };
  for (const error of await getErrors({ substitutions: null, evaluation }))
    expect(error).toContain("row standard in column all has no substitutions to attack with");
  const named = await writeTinySweep(folder, {
    substitutions: null,
    evaluation: { ...evaluation, options: { substitutions: "wordnet" } },
  });
  expect(await invoke(["sweep", named, "--dry-run", "--no-estimate"])).toMatchObject({ code: 0 });
});

test("wrong columns and bad rows are rejected before the first run", async () => {
  for (const error of await getErrors({ textColumn: ["review"] })) expect(error).toContain('no column "review"');
  for (const error of await getErrors({ labelMap: { good: "a", bad: "b" } })) expect(error).toContain("the label");
});

test("a missing table of substitutions is rejected before the first run", async () => {
  const file = await writeTinySweep(folder);
  rmSync(join(folder, "substitutions.json"));
  const message = await getError(["sweep", file, "--out", join(folder, "out"), "--no-estimate"]);
  expect(message).toContain("substitutions.json is missing");
});

test("a missing model in a folder is rejected before the first run", async () => {
  const missing = join(folder, "none/model");
  for (const error of await getErrors({ model: missing })) expect(error).toContain(`${missing}: no such folder`);
  const rows = { standard: null, other: { model: missing } };
  for (const error of await getErrors({ rows })) expect(error).toContain(`${missing}: no such folder`);
});

test("a missing masked language model is rejected before the first run", async () => {
  const missing = join(folder, "masked-lm/model");
  const evaluate = (maskedLm?: string) => ({
    evaluation: { attacks: ["bert-attack"], numExamples: 4, options: { maskedLm } },
  });
  for (const error of await getErrors(evaluate()))
    expect(error).toContain("maskedLm: expected a masked language model for the attacks, received none");
  for (const error of await getErrors(evaluate(missing)))
    expect(error).toMatch(/maskedLm: .*masked-lm\/model: no such folder/);
  // Alzantot can use one, but works without it.
  const evaluation = { attacks: ["alzantot"], numExamples: 4 };
  const optional = await writeTinySweep(folder, { evaluation });
  expect(await invoke(["sweep", optional, "--dry-run", "--no-estimate"])).toMatchObject({ code: 0 });
});
