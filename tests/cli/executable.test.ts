import { execFileSync, spawn, spawnSync } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { testLong } from "../long.js";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";
import { main } from "./built.js";
import { writeTinyClassifier } from "./tiny-model.js";

const folder = temporaryFolder();

function temper(
  args: readonly string[],
  input: string | Buffer = "",
): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, [main, ...args], { encoding: "utf8", input });
}

testLong("npx finds the program in a checkout", () => {
  const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
  expect(execFileSync("npm", ["exec", "--offline", "--", "temper", "--version"], { encoding: "utf8" }).trim()).toBe(
    version,
  );
});

test("exit codes and streams of the real process", async () => {
  const model = await writeTinyClassifier(join(folder, "tiny"));
  const good = temper(["predict", model, "--json", "--quiet"], "a quiet film .\n");
  expect(good).toMatchObject({ status: 0, stderr: "" });
  expect(JSON.parse(good.stdout)).toMatchObject({ text: "a quiet film .", label: "LABEL_0" });
  expect(temper(["predict", model, "--quiet"], Buffer.from([0x61, 0xff, 0x0a]))).toMatchObject({
    status: 2,
    stdout: "",
    stderr: "temper: standard input:1: the line is not valid UTF-8. Save the text as UTF-8.\n",
  });
});

test("the package can be imported by its name and its subpaths", () => {
  const program = `
    const { train, UserError } = await import("temper-nlp");
    const { rose } = await import("temper-nlp/methods");
    const { loadAttack } = await import("temper-nlp/attacks");
    const { Tensor } = await import("temper-nlp/tensor");
    const { layerNorm } = await import("temper-nlp/nn");
    const { analyze } = await import("temper-nlp/analysis");
    console.log(train.name, UserError.name, rose.name, loadAttack.name, Tensor.name, layerNorm.name, analyze.name);`;
  expect(execFileSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" })).toBe(
    "train UserError rose loadAttack Tensor layerNorm analyze\n",
  );
});

test("a reader that stops early is not an error", async () => {
  const model = await writeTinyClassifier(join(folder, "tiny"));
  const child = spawn(process.execPath, [main, "predict", model, "--json", "--quiet"]);
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk;
  });
  child.stdin.on("error", () => undefined);
  child.stdin.end("a quiet film .\n".repeat(20_000));
  child.stdout.once("data", () => child.stdout.destroy());
  const code = await new Promise((resolve) => child.once("exit", resolve));
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});

test("an output that cannot be written is reported in one line", async () => {
  const model = await writeTinyClassifier(join(folder, "tiny"));
  const full = openSync("/dev/full", "w");
  const { status, stderr } = spawnSync(process.execPath, [main, "predict", model, "--json"], {
    encoding: "utf8",
    input: "a quiet film .\n",
    stdio: ["pipe", full, "pipe"],
  });
  closeSync(full);
  expect({ status, stderr }).toEqual({
    status: 2,
    stderr: "temper: cannot write the output: the disk is full; free some space and try again\n",
  });
});

testLong("a run finishes even if nobody reads its progress", async () => {
  const { model, data } = await tinyRun(join(folder, "unread"));
  const out = join(folder, "unread", "run");
  const table = ["--data", data!, "--text-column", "text", "--label-column", "label"];
  const settings = ["--epochs", "1", "--device", "cpu", "--threads", "1", "--out", out];
  const child = spawn(process.execPath, [main, "train", "--model", model, ...table, ...settings]);
  child.stderr.destroy();
  const code = await new Promise((resolve) => child.once("exit", resolve));
  expect(code).toBe(0);
  expect(existsSync(join(out, "results.json"))).toBe(true);
});

test("setup --dry-run prints what it would do", () => {
  const { status, stdout } = temper(["setup", "--dry-run", "--json"]);
  expect(status).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ addon: expect.stringMatching(/temper\.node$/) });
});
