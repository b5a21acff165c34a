import { execFileSync, spawn, spawnSync } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";
import { buildIfStale, main } from "./built.js";
import { writeTinyModel } from "./tiny-model.js";

const folder = temporaryFolder();

beforeAll(buildIfStale, 180_000);

function temper(
  args: readonly string[],
  input: string | Buffer = "",
): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, [main, ...args], { encoding: "utf8", input });
}

test("npx finds it in the checkout", () => {
  const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
  expect(execFileSync("npm", ["exec", "--offline", "--", "temper", "--version"], { encoding: "utf8" }).trim()).toBe(
    version,
  );
});

test("exit codes and streams of the real process", async () => {
  const model = await writeTinyModel(join(folder, "tiny"));
  const good = temper(["encode", model, "--json"], "a quiet film .\n");
  expect(good).toMatchObject({ status: 0, stderr: "" });
  expect(JSON.parse(good.stdout)).toMatchObject({ tokens: ["[CLS]", "a", "quiet", "film", ".", "[SEP]"] });
  expect(temper(["encode", model], Buffer.from([0x61, 0xff, 0x0a]))).toMatchObject({
    status: 2,
    stdout: "",
    stderr: "temper: standard input:1: the line is not valid UTF-8. Save the text as UTF-8.\n",
  });
  expect(temper(["encode", "./nowhere"]).status).toBe(2);
});

test("the package is a library under its own name", () => {
  const program =
    'import("temper-nlp").then(({ loadModel, Tensor, UserError }) => console.log(typeof loadModel, Tensor.name, UserError.name))';
  expect(execFileSync(process.execPath, ["-e", program], { encoding: "utf8" })).toBe("function Tensor UserError\n");
});

test("a reader that has seen enough ends it quietly", async () => {
  const model = await writeTinyModel(join(folder, "tiny"));
  const child = spawn(process.execPath, [main, "encode", model, "--json", "--quiet"]);
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

test("an output that cannot be written is told in a line", async () => {
  const model = await writeTinyModel(join(folder, "tiny"));
  const full = openSync("/dev/full", "w");
  const { status, stderr } = spawnSync(process.execPath, [main, "encode", model, "--json"], {
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

test("a run that nobody watches any more goes on to its end", async () => {
  const { model, data } = await tinyRun(join(folder, "unwatched"));
  const out = join(folder, "unwatched", "run");
  const table = ["--data", data!, "--text-column", "text", "--label-column", "label"];
  const settings = ["--epochs", "1", "--device", "cpu", "--threads", "1", "--out", out];
  const child = spawn(process.execPath, [main, "train", "--model", model, ...table, ...settings]);
  child.stderr.destroy();
  const code = await new Promise((resolve) => child.once("exit", resolve));
  expect(code).toBe(0);
  expect(existsSync(join(out, "results.json"))).toBe(true);
});

test("set-up says what it would do", () => {
  const { status, stdout } = temper(["setup", "--dry-run", "--json"]);
  expect(status).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ addon: expect.stringMatching(/temper\.node$/) });
});
