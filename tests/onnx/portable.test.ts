import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { describe, expect, test, vi } from "vitest";
import { attack } from "../../src/actions/attack/attack.js";
import { evaluate } from "../../src/actions/evaluate.js";
import { gate } from "../../src/actions/gate/gate.js";
import { loadClassifier } from "../../src/actions/predict/text-classifier.js";
import { verify } from "../../src/actions/verify/verify.js";
import { serve } from "../../src/serve/serve-model.js";
import { chooseExtent } from "../extent.js";
import { temporaryFolder } from "../temporary.js";

// This file needs neither libtorch nor a program besides Node.js. `.github/workflows/onnx.yml` runs it on other platforms.

const fixture = fileURLToPath(new URL("../fixtures/onnx-tiny", import.meta.url));
const data = { data: join(fixture, "reviews.tsv"), textColumn: ["text"], labelColumn: "label" };
const shared = { ...data, threads: 1, substitutions: join(fixture, "table.json"), cache: false };

test("an exported model is evaluated, attacked, verified, gated and served", async () => {
  const folder = temporaryFolder();
  vi.stubEnv("TEMPER_BACKEND", "onnx");
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  await using classifier = await loadClassifier(fixture, { threads: 1 });
  const [first] = await classifier.classify(["the film was joy"]);
  expect(first).toMatchObject({ label: "positive" });
  expect(await evaluate({ model: fixture, ...data, threads: 1 })).toMatchObject({ accuracy: 1 });
  const out = join(folder, "attacks");
  const report = await attack({ model: fixture, attacks: ["greedy", "deepwordbug"], numExamples: 8, out, ...shared });
  for (const name of ["greedy", "deepwordbug"]) expect(report.attacks[name]!.accuracyUnderAttack).toBeLessThan(1);
  const journals = readdirSync(out).filter((name) => name.endsWith(".jsonl"));
  for (const name of journals) await verify({ journals: [join(out, name)], model: fixture, threads: 1 });
  expect(journals.sort()).toEqual(["deepwordbug.jsonl", "greedy.jsonl"]);
  const { data: path, ...columns } = data;
  const request = {
    ...{ model: fixture, baseline: fixture, maxDrop: 50, out: join(folder, "gate") },
    ...{ data: { path, ...columns }, numExamples: 20, threads: 1 },
    substitutions: shared.substitutions,
  };
  expect(await gate(request)).toMatchObject({ verdict: "passed" });
  await using server = await serve({ model: fixture, port: 0, threads: 1 });
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ texts: ["it was dull"] });
  const response = await fetch(`${server.url}predict`, { method: "POST", headers, body });
  expect(await response.json()).toMatchObject({ predictions: ["negative"] });
});

/** What a program with an ONNX model loads, except the commands that need libtorch. */
const entries = [
  ...["attack/attack", "evaluate", "exact/exact", "certify", "compare", "gate/gate"],
  ...["verify/verify", "predict/text-classifier"],
].map((path) => `actions/${path}`);
const modules = [...entries, "serve/serve-model", "studio/playground-model", "onnx/find-onnx-runtime"];

/**
 * Loads the modules in a process that has the name and the paths of another platform. Returns the
 * source files that were loaded.
 */
function loadOn(platform: string, paths: "posix" | "win32"): string[] {
  const shim = `import path from "node:path"; const own = path.${paths}; export default own;
    export const { basename, delimiter, dirname, extname, isAbsolute, join, normalize, parse, relative, resolve, sep, posix, win32 } = own;`;
  const toUrl = (code: string): string => `data:text/javascript,${encodeURIComponent(code)}`;
  const hooks = `export async function resolve(name, context, next) {
    const found = name === "node:path" && context.parentURL?.startsWith("file:") ? null : await next(name, context);
    if (found?.url.includes("/dist/") && !found.url.includes("node_modules")) process._rawDebug(found.url);
    return found ?? { url: ${JSON.stringify(toUrl(shim))}, shortCircuit: true };
  }`;
  const program = `
    import { register } from "node:module";
    register(${JSON.stringify(toUrl(hooks))});
    Object.defineProperty(process, "platform", { value: ${JSON.stringify(platform)} });
    for (const url of ${JSON.stringify(modules.map((path) => pathToFileURL(resolve("dist", `${path}.js`)).href))})
      await import(url);
    console.log(process.platform, (await import("node:path")).sep);`;
  const { stdout, stderr, status } = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
    ...{ encoding: "utf8", env: { ...process.env, TEMPER_BACKEND: "onnx" } },
  });
  expect([status, stdout]).toEqual([0, `${platform} ${paths === "win32" ? "\\" : "/"}\n`]);
  const files = stderr.split("\n").flatMap((line) => /\/dist\/(.*)\.js$/.exec(line)?.[1] ?? []);
  return [...new Set(files)].map((file) => `src/${file}.ts`).sort();
}

describe("other platforms", () => {
  /** Calls that only POSIX systems have. Files that may use them say what they do elsewhere. */
  const posixOnly =
    /process\.(get|set)e?[ug]id|["'`]\/(proc|tmp|dev|bin|etc|sys|usr)\b|path\.posix|path\/posix|\b(symlink|chown|mkfifo)(Sync)?\(|spawn(Sync)?\("|exec(File)?(Sync)?\("/;
  const allowed: Readonly<Record<string, string>> = {
    "src/base/find-package.ts": "on Windows, npm is started by the shell",
    "src/base/processes.ts": "without /proc, a process is looked for with process.kill(pid, 0)",
    "src/hub/hub-cache.ts": "without links, files are copied",
    "src/runs/environment.ts": "without git, the commit is unknown",
    "src/tensor/kernels.ts": "CUDA is not used",
  };

  const platforms = [
    ["win32", "win32"],
    ["darwin", "posix"],
  ] as const;

  // The second differs from this host in its name only.
  test.each(platforms.slice(0, chooseExtent(1, 2)))("the modules of ONNX mode load on %s", (platform, paths) => {
    const files = loadOn(platform, paths);
    expect(files.length).toBeGreaterThan(200);
    const found = files.filter((file) => posixOnly.test(readFileSync(file, "utf8")));
    expect(found.filter((file) => !(file in allowed))).toEqual([]);
  });

  test("every exception of the rule is one", () => {
    for (const file of Object.keys(allowed)) expect(readFileSync(file, "utf8")).toMatch(posixOnly);
  });
});
