import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { run } from "../../src/cli/main.js";
import { invoke, memoryStream } from "./invoke.js";

afterEach(() => vi.unstubAllEnvs());

const verbs = [
  "setup",
  "doctor",
  "train",
  "evaluate",
  "predict",
  "attack",
  "verify",
  "compare",
  "serve",
  "runs",
  "encode",
];

test("help and version go to stdout, with code 0", async () => {
  const help = await invoke(["--help"]);
  expect(help).toMatchObject({ code: 0, stderr: "" });
  for (const verb of verbs) expect(help.stdout).toContain(`  ${verb} `);
  const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
  expect(await invoke(["--version"])).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
});

test.each(verbs)("the help of %s ends with examples", async (verb) => {
  const { code, stdout } = await invoke([verb, "--help"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(new RegExp(`Examples:\\n(  \\$ .*temper ${verb}.*\\n)+\\n*$`));
  expect((await invoke(["help", verb])).stdout).toBe(stdout);
});

test.each(verbs)("the files of this package that the examples of %s name are there", async (verb) => {
  const { stdout } = await invoke([verb, "--help"]);
  for (const [file] of stdout.matchAll(/experiments\/\S+/g)) expect(existsSync(file), file).toBe(true);
});

test("the help of train tells its own default encoding, the other verbs tell theirs", async () => {
  const help = async (verb: string): Promise<string> => (await invoke([verb, "--help"])).stdout.replace(/\s+/g, " ");
  expect(await help("train")).toContain("how text is read (default: subword)");
  for (const verb of ["attack", "encode"])
    expect(await help(verb)).toContain("how text is read (default: as the model was trained, else subword)");
});

test("a mistyped verb is told what was probably meant", async () => {
  const { code, stdout, stderr } = await invoke(["encod", "x"]);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toMatch(/^temper: unknown command 'encod'\n\(Did you mean encode\?\)\n/);
});

test("no verb at all shows the help, on stderr", async () => {
  const { code, stdout, stderr } = await invoke([]);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toContain("Usage: temper");
});

/** A run whose stdout throws: a mistake that is not the user's. */
async function broken(message: string): Promise<{ code: number; stderr: string }> {
  const stderr = memoryStream();
  const stdout = Object.assign(memoryStream(), {
    write() {
      throw new Error(message);
    },
  });
  const code = await run(["doctor", "--json"], { stdin: process.stdin, stdout, stderr });
  return { code, stderr: stderr.text };
}

test("a mistake of ours says so, with the stack on demand", async () => {
  expect(await broken("boom")).toEqual({
    code: 1,
    stderr: "temper: boom\nThis is a bug in Temper; run with TEMPER_DEBUG=1 for the stack.\n",
  });
  vi.stubEnv("TEMPER_DEBUG", "1");
  expect((await broken("boom")).stderr).toMatch(/^Error: boom\n\s+at /);
});

test("too little memory is no mistake of ours", async () => {
  const { code, stderr } = await broken("empty: a tensor of 80.0 GiB does not fit: 20.1 GiB of memory are free");
  expect(code).toBe(2);
  expect(stderr).toContain("--batch-size");
});

// Loading an engine, a schema library and a hub client for --help would cost half a second.
test("starting loads no verb", () => {
  const staticImports = (file: string): string[] =>
    [...readFileSync(join("src/cli", file), "utf8").matchAll(/^import (?!type)[^;]*?from "([^"]+)"/gm)].map(
      ([, path]) => path!,
    );
  expect(staticImports("main.ts")).toEqual([
    "node:fs",
    "node:url",
    "@commander-js/extra-typings",
    "../errors.js",
    "./verb.js",
  ]);
  expect(staticImports("verb.ts")).toEqual([]);
  expect(staticImports("../errors.ts")).toEqual([]);
});
