import { expect, it } from "vitest";
import { invoke } from "../cli/invoke.js";

const names = [
  "distance",
  "tradeoff",
  "ablation",
  "geometry",
  "landscape",
  "interpolation",
  "preference",
  "consistency",
];

/** Each analysis with all its flags, besides --out, --png, --json and --quiet. */
const flags: Readonly<Record<string, string>> = {
  distance: "--by --device --threads",
  tradeoff: "",
  ablation: "--by",
  geometry: "--split --num-examples --seed --device --threads --perplexity --iterations",
  landscape: "--pretrained --points --range --split --num-examples --seed --device --threads",
  interpolation: "--points --from --to --split --num-examples --seed --device --threads",
  preference: "",
  consistency: "--steps",
};

it("temper analyze lists its analyses, with examples", async () => {
  const { code, stdout } = await invoke(["analyze", "--help"]);
  expect(code).toBe(0);
  for (const name of names) expect(stdout).toContain(`  ${name} `);
  expect(stdout).toMatch(/Examples:\n( {2}\$ temper analyze .*\n)+/);
});

it.each(names)("the help of %s lists its flags and ends with examples", async (name) => {
  const { code, stdout } = await invoke(["analyze", name, "--help"]);
  expect(code).toBe(0);
  for (const flag of `${flags[name]} --out --png --json --quiet`.trim().split(" "))
    expect(stdout).toContain(`  ${flag} `);
  expect(stdout).toMatch(new RegExp(`Examples:\\n( {2}\\$ temper analyze ${name} .*\\n)+\\n*$`));
});

it("a misspelled analysis gets a suggestion, and a missing one the list", async () => {
  const mistyped = await invoke(["analyze", "distanse", "x"]);
  expect(mistyped).toMatchObject({ code: 2, stdout: "" });
  expect(mistyped.stderr).toMatch(/unknown command 'distanse'\n\(Did you mean distance\?\)/);
  const none = await invoke(["analyze"]);
  expect(none.code).toBe(2);
  expect(none.stderr).toContain("landscape");
});
