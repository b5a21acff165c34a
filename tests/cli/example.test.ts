import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { loadSpamTask } from "../tasks/spam-cache.js";
import { temporaryFolder } from "../temporary.js";
import { invoke } from "./invoke.js";

// The example contains some of the decoded emails.
beforeAll(loadSpamTask);
afterAll(() => void vi.unstubAllEnvs());

test("example writes the files of the tutorial, as it shows them, and overwrites nothing", async () => {
  const folder = temporaryFolder();
  const command = ["example", "emails.csv", "new.csv", "--out", folder];
  const { code, stdout } = await invoke(command);
  expect(code).toBe(0);
  expect(stdout).toContain("Next: temper harden --data");
  const lines = readFileSync(join(folder, "emails.csv"), "utf8").trimEnd().split("\n");
  expect(lines).toHaveLength(393);
  const shown = readFileSync("docs/guide/tutorial.md", "utf8");
  expect(lines[2]).toMatch(/^2,"FORTUNE 500 COMPANY HIRING/);
  expect(shown).toContain(lines[2]!);
  expect(readFileSync(join(folder, "new.csv"), "utf8").split("\n")).toHaveLength(10);
  expect((await invoke(command)).stderr).toContain("already exists");
  expect((await invoke(["example", "mails.csv"])).code).toBe(2);
});
