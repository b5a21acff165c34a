import { expect, test } from "vitest";
import { invoke } from "../cli/invoke.js";

test("temper sweep lists the shipped sweeps, and accepts their names", async () => {
  const { code, stdout } = await invoke(["sweep"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^rose-table-1 +.*small.* +\S/m);
  expect(stdout).not.toMatch(/^published /m);
  const planned = await invoke(["sweep", "spam", "--dry-run", "--no-estimate", "--json"]);
  expect(planned.code).toBe(0);
  expect(JSON.parse(planned.stdout)).toMatchObject({ out: "runs/spam" });
  const unknown = await invoke(["sweep", "rose-table-99", "--dry-run"]);
  expect(unknown.code).toBe(2);
});
