import { expect, it } from "vitest";
import { invoke } from "../cli/invoke.js";

const names = ["distance", "tradeoff", "ablation", "geometry", "landscape", "interpolation", "probe", "consistency"];

it("lists its analyses, with examples", async () => {
  const { code, stdout } = await invoke(["analyze", "--help"]);
  expect(code).toBe(0);
  for (const name of names) expect(stdout).toContain(`  ${name} `);
  expect(stdout).toMatch(/Examples:\n( {2}\$ temper analyze .*\n)+/);
});

it.each(names)("the help of %s ends with examples", async (name) => {
  const { code, stdout } = await invoke(["analyze", name, "--help"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(new RegExp(`Examples:\\n( {2}\\$ temper analyze ${name} .*\\n)+\\n*$`));
});

it("a mistyped analysis is told what was probably meant, and none at all shows the list", async () => {
  const mistyped = await invoke(["analyze", "distanse", "x"]);
  expect(mistyped).toMatchObject({ code: 2, stdout: "" });
  expect(mistyped.stderr).toMatch(/unknown command 'distanse'\n\(Did you mean distance\?\)/);
  const none = await invoke(["analyze"]);
  expect(none.code).toBe(2);
  expect(none.stderr).toContain("landscape");
});
