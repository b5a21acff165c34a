import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { beforeAll, expect, test } from "vitest";
import type { TellingEmail } from "../../src/actions/try/find-telling-email.js";
import { temporaryFolder } from "../temporary.js";
import { main } from "./built.js";

const demo = resolve("packages/temper-nlp-demo");
const folder = temporaryFolder();
const user = join(folder, "user");

/** Prints the native libraries of the process at its end. */
const listLibraries = String.raw`
  process.once("exit", () => {
    const { readFileSync, writeFileSync } = require("node:fs");
    const maps = readFileSync("/proc/self/maps", "utf8").split("\n");
    writeFileSync(process.env.LIBRARIES, maps.filter((line) => /\.(node|so)\b/.test(line)).join("\n"));
  });`;

// As for a user: the package of the demo is in node_modules of the current folder.
beforeAll(() => {
  mkdirSync(join(user, "node_modules"), { recursive: true });
  symlinkSync(demo, join(user, "node_modules/temper-nlp-demo"));
  writeFileSync(join(folder, "list-libraries.cjs"), listLibraries);
});

function temper(...args: readonly string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, ["--require", join(folder, "list-libraries.cjs"), resolve(main), ...args], {
    cwd: user,
    encoding: "utf8",
    env: { ...process.env, LIBRARIES: join(folder, "libraries.txt"), TEMPER_BACKEND: undefined },
  });
}

test("try finds an email that fools only the standard filter, and loads no libtorch", () => {
  const { status, stdout, stderr } = temper("try", "--json", "--seed", "1");
  expect({ status, stderr }).toEqual({ status: 0, stderr: expect.stringMatching(/^Two small spam filters/) });
  const { id, labels, standard, robust } = JSON.parse(stdout) as TellingEmail;
  expect(labels).toEqual(["ham", "spam"]);
  expect([standard.outcome, robust.outcome]).toEqual(["success", "failed"]);
  expect(standard.texts).toEqual(robust.texts);
  expect(standard.edits.length).toBeGreaterThan(0);
  expect(JSON.parse(readFileSync(join(demo, "filters/emails.json"), "utf8"))).toContain(id);
  const libraries = readFileSync(join(folder, "libraries.txt"), "utf8");
  expect(libraries).toContain("onnxruntime");
  expect(libraries).not.toMatch(/libtorch|libc10|temper\.node/);
  // Another command agrees: the verdict is that of the filters, not of the search.
  const predict = (name: string, ...texts: readonly (readonly string[])[]): unknown[] => {
    const args = ["predict", join(demo, "filters", name), "-", "--json"];
    const input = texts.map((fields) => `${fields[0]!.replaceAll("\n", " ")}\n`).join("");
    const { stdout: lines } = spawnSync(process.execPath, [resolve(main), ...args], { encoding: "utf8", input });
    return lines
      .trim()
      .split("\n")
      .map((line) => (JSON.parse(line) as { label: string }).label);
  };
  expect(predict("standard", standard.texts, standard.finalTexts)).toEqual(["spam", "ham"]);
  expect(predict("robust", standard.finalTexts, robust.finalTexts)).toEqual(["spam", "spam"]);
});

test("try draws the email with its changed words, and says what to do next", () => {
  const { status, stdout } = temper("try", "--quiet");
  expect(status).toBe(0);
  expect(stdout).toMatch(/^standard +\| robust$/m);
  expect(stdout).toMatch(/^spam [\d.]+% -> [\d.]+%: fooled +\| spam [\d.]+% -> [\d.]+%: robust$/m);
  const [original, drawn] = stdout.split("\n\n");
  const left = drawn!.split("\n").map((line) => line.split(" | ")[0]!);
  const countMarks = (text: string): number => text.match(/\*\w+\*/g)!.length;
  expect(countMarks(left.join("\n"))).toBe(countMarks(original!));
  // The README shows this email. Another CPU may round a probability differently.
  const hideDigits = (text: string): string => text.replaceAll(/[\d.]+%/g, "%");
  const shown = /^```text\n([\s\S]*?)^```$/m.exec(readFileSync("README.md", "utf8"))![1]!;
  expect(hideDigits(stdout)).toContain(hideDigits(shown));
  expect(stdout.trimEnd().endsWith("Next: temper harden --data yours.csv")).toBe(true);
});

test("npm packs the filters with the package of the demo, far below 30 MB", () => {
  const output = execFileSync("npm", ["pack", "--dry-run", "--json"], { cwd: demo, encoding: "utf8" });
  const [{ files, unpackedSize }] = JSON.parse(output) as [{ files: { path: string }[]; unpackedSize: number }];
  const paths = files.map(({ path }) => path);
  for (const name of ["standard", "robust"]) expect(paths).toContain(`filters/${name}/onnx/model_quantized.onnx`);
  expect(unpackedSize).toBeLessThan(6e6);
});
