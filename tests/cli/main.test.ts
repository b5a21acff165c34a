import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { run } from "../../src/cli/main.js";
import { invoke, memoryStream } from "./invoke.js";

afterEach(() => vi.unstubAllEnvs());

const commands = [
  ...["setup", "doctor", "train", "evaluate", "predict", "attack", "verify", "compare", "serve"],
  ...["runs", "show", "prune", "completion"],
];

test("help and version are printed to stdout with exit code 0", async () => {
  const help = await invoke(["--help"]);
  expect(help).toMatchObject({ code: 0, stderr: "" });
  for (const command of commands) expect(help.stdout).toContain(`  ${command} `);
  expect(help.stdout).not.toContain("worker");
  const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
  expect(await invoke(["--version"])).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
});

test.each(commands)("the help of %s ends with examples, and the files they name exist", async (command) => {
  const { code, stdout } = await invoke([command, "--help"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(new RegExp(`Examples:\\n(  \\$ .*temper ${command}.*\\n)+\\n*$`));
  expect((await invoke(["help", command])).stdout).toBe(stdout);
  for (const [file] of stdout.matchAll(/experiments\/\S+/g)) expect(existsSync(file), file).toBe(true);
});

test("the help shows the defaults of the request schemas", async () => {
  const readHelp = async (command: string): Promise<string> =>
    (await invoke([command, command === "attack" ? "--help-all" : "--help"])).stdout.replace(/\s+/g, " ");
  expect(await readHelp("train")).toContain("examples per batch (default: 32)");
  expect(await readHelp("train")).toMatch(/--tokenization <name> subword, or word for .*\(default: subword\)/);
  expect(await readHelp("attack")).toContain("number of examples (default: 1000)");
  for (const command of ["attack", "exact"])
    expect(await readHelp(command)).toMatch(/--tokenization <name> subword or word \(default: as in training/);
});

test("the help lists the commands in groups, from the first step to research", async () => {
  const { stdout } = await invoke(["--help"]);
  const groups = [...stdout.matchAll(/^([A-Z][a-z]+):\n {2}(\w+)/gm)].map(([, group, first]) => [group, first]);
  expect(groups).toEqual([
    ["Start", "harden"],
    ["Attack", "attack"],
    ["Prove", "exact"],
    ["Compare", "evaluate"],
    ["Ship", "predict"],
    ["Research", "train"],
  ]);
  expect(stdout).toMatch(/^ {2}harden [^\n]*\n( {3}.*\n)* {2}try /m);
});

test("attack --help and harden --help show at most 20 options in groups, and --help-all the rest", async () => {
  const listFlags = (help: string): string[] =>
    [...help.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, flag]) => flag!);
  const short = await invoke(["attack", "--help"]);
  const long = await invoke(["attack", "--help-all"]);
  expect([short.code, long.code]).toEqual([0, 0]);
  const [few, all] = [listFlags(short.stdout), listFlags(long.stdout)];
  expect(few.length).toBeLessThanOrEqual(20);
  expect(few).toEqual(expect.arrayContaining(["--attack", "--data", "--num-examples", "--input", "--out"]));
  expect(short.stdout).toMatch(/^Attack:\n {2}--attack /m);
  expect(all).toEqual(expect.arrayContaining([...few, "--processes", "--endpoint"]));
  expect(short.stdout).toContain(`--help-all${" ".repeat(25)}print the other ${all.length - few.length} options, too`);
  expect(new Set(all).size).toBe(all.length);
  const harden = await invoke(["harden", "--help"]);
  expect(harden.stdout).toContain("print the other 15 options, too");
  expect(harden.stdout).toMatch(/^Data:\n {2}--data /m);
  expect(harden.stdout.replace(/\s+/g, " ")).toContain("(two for a pair) (default: guessed from the columns)");
  // gate and exact have some of the same keys.
  for (const command of ["gate", "exact", "train"]) {
    const { stdout } = await invoke([command, "--help"]);
    expect(stdout).not.toContain("--help-all");
    expect(listFlags(stdout).length).toBeGreaterThan(20);
  }
});

test("a mistyped command gets a suggestion", async () => {
  const { code, stdout, stderr } = await invoke(["attac", "x"]);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toMatch(/^temper: unknown command 'attac'\n\(Did you mean attack\?\)\n/);
});

test("without a command, the help is printed to stderr", async () => {
  const { code, stdout, stderr } = await invoke([]);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toContain("Usage: temper");
});

/** Runs a command whose stdout throws: an error that is not the user's. */
async function runWithBrokenOutput(message: string): Promise<{ code: number; stderr: string }> {
  const stderr = memoryStream();
  const stdout = Object.assign(memoryStream(), {
    write() {
      throw new Error(message);
    },
  });
  const code = await run(["doctor", "--json"], { stdin: process.stdin, stdout, stderr });
  return { code, stderr: stderr.text };
}

test("a bug is reported as one, with the stack trace on request", async () => {
  expect(await runWithBrokenOutput("boom")).toEqual({
    code: 1,
    stderr: "temper: boom\nThis is a bug in Temper. Set TEMPER_DEBUG=1 to see the stack trace.\n",
  });
  vi.stubEnv("TEMPER_DEBUG", "1");
  expect((await runWithBrokenOutput("boom")).stderr).toMatch(/^Error: boom\n\s+at /);
});

test("running out of memory is not a bug", async () => {
  const { code, stderr } = await runWithBrokenOutput(
    "empty: a tensor of 80.0 GiB does not fit: 20.1 GiB of memory are free",
  );
  expect(code).toBe(2);
  expect(stderr).toContain("Reduce --batch-size or --max-length.");
});

// Loading the engine, the schemas and the hub client for --help would take half a second.
test("the program starts without loading a command", () => {
  const listStaticImports = (file: string): string[] =>
    [...readFileSync(join("src/cli", file), "utf8").matchAll(/^import (?!type)[^;]*?from "([^"]+)"/gm)].map(
      ([, path]) => path!,
    );
  expect(listStaticImports("main.ts")).toEqual([
    "node:fs",
    "node:url",
    "@commander-js/extra-typings",
    "../base/errors.js",
    "../base/processes.js",
    "../base/shell.js",
    "./command.js",
    "./command-list.js",
    "./io.js",
  ]);
  expect(listStaticImports("command.ts")).toEqual([]);
  expect(listStaticImports("command-list.ts")).toEqual([]);
  expect(listStaticImports("io.ts")).toEqual(["picocolors"]);
  expect(listStaticImports("../base/errors.ts")).toEqual([]);
});
