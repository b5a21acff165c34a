import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

/** From the bottom up: a folder may import those before it. */
const layers = (
  "base tensor nn text hub models onnx guard tasks hull attacks evaluation proofs train methods " +
  "settings runs actions analysis report audit harden jobs sweeps serve studio cli"
).split(" ");

/** The entry points next to the main one: `temper-nlp/methods`, … */
const entries: Readonly<Record<string, string>> = {
  methods: "methods/index",
  attacks: "attacks/index",
  // Other folders of src/ import more from these than programs need.
  models: "models/public",
  tensor: "tensor/public",
  nn: "nn/public",
  analysis: "analysis/index",
  certificates: "proofs/certificates/index",
};

const source = resolve(import.meta.dirname, "../src");
const mainEntry = "index.ts";

const files = readdirSync(source, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));

function readSource(file: string): string {
  return readFileSync(join(source, file), "utf8");
}

function getLayer(file: string): string {
  return file.split("/", 1)[0]!;
}

/** The source files that a file imports, statically or with import(). */
function listImports(file: string): string[] {
  const paths = [...readSource(file).matchAll(/(?:\bfrom|\bimport\(|^import)\s*"(\.[^"]+)"/gm)].map(
    ([, path]) => path!,
  );
  return paths.map((path) => relative(source, resolve(source, dirname(file), path)).replace(/\.js$/, ".ts"));
}

/** The imports of a file that lead to a layer above its own. */
function listUpwardImports(file: string, imports: readonly string[]): string[] {
  const layer = layers.indexOf(getLayer(file));
  return imports.filter((target) => layers.indexOf(getLayer(target)) > layer).map((target) => `${file} -> ${target}`);
}

test("every folder of src/ is a layer", () => {
  expect([...new Set(files.map(getLayer))].filter((layer) => !layers.includes(layer))).toEqual([mainEntry]);
});

test("every import leads to a file", () => {
  const all = files.flatMap((file) => listImports(file).map((target) => ({ file, target })));
  expect(all).toContainEqual({ file: "cli/command-list.ts", target: "cli/command.ts" });
  expect(all).toContainEqual({ file: "tensor/native.ts", target: "base/errors.ts" });
  expect(all.filter(({ target }) => !files.includes(target))).toEqual([]);
});

test("tests mirror src: every folder of tests has its name and place", () => {
  // Processes are tested together with native/, and scripts and examples beside src.
  const others = ["distributed", "examples", "fixtures", "scripts"];
  const tests = readdirSync("tests", { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".test.ts"));
  const folders = new Set(files.map(dirname));
  const expected = tests.map(dirname).filter((folder) => !others.includes(getLayer(folder)));
  expect(expected.filter((folder) => folder !== "." && !folders.has(folder))).toEqual([]);
});

// The folders are in one order, so this also excludes cycles between folders.
test("imports between folders point down only", () => {
  expect(listUpwardImports("tensor/ops.ts", ["nn/layers.ts", "tensor/operator.ts", "base/errors.ts"])).toEqual([
    "tensor/ops.ts -> nn/layers.ts",
  ]);
  const checked = files.filter((file) => file !== mainEntry);
  expect(checked.flatMap((file) => listUpwardImports(file, listImports(file)))).toEqual([]);
});

/** Lists the groups of files that import each other in a circle, type imports included. */
function findCycles(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const open: string[] = [];
  const cycles: string[][] = [];
  const visit = (file: string): void => {
    order.set(file, order.size);
    lowest.set(file, order.get(file)!);
    open.push(file);
    for (const target of graph.get(file) ?? []) {
      if (!order.has(target)) visit(target);
      if (open.includes(target)) lowest.set(file, Math.min(lowest.get(file)!, lowest.get(target)!));
    }
    if (lowest.get(file) !== order.get(file)) return;
    const group = open.splice(open.indexOf(file));
    if (group.length > 1) cycles.push(group.sort());
  };
  for (const file of graph.keys()) if (!order.has(file)) visit(file);
  return cycles;
}

test("no files import each other in a circle", () => {
  const planted = new Map([
    ["a", ["b"]],
    ["b", ["c", "d"]],
    ["c", ["a"]],
    ["d", []],
  ]);
  expect(findCycles(planted)).toEqual([["a", "b", "c"]]);
  expect(findCycles(new Map(files.map((file) => [file, listImports(file)])))).toEqual([]);
});

/**
 * Rooms that other folders enter through these files only. A door loads what is behind it, so a room has a second one
 * where a command needs little of it. Every file of the other rooms is a door.
 */
const doors: Readonly<Record<string, readonly string[]>> = {
  tensor: ["index", "native", "precision-verdict"],
  nn: ["index"],
  hub: ["hub-cache", "hub-connection"],
  onnx: ["find-onnx-file", "find-onnx-runtime", "load-onnx-model", "onnx-classifier", "portable-model", "write-export"],
  proofs: ["index", "certificates/index"],
  train: ["index", "checkpoint", "training-method"],
  methods: ["index", "describe-methods"],
  analysis: ["index", "colors", "definitions", "figure", "plot-panel", "run-labels"],
  audit: ["audit", "audit-request", "audit-result", "page", "verify-audit"],
  harden: ["harden", "harden-request"],
  sweeps: ["index", "compared-models", "plan"],
  serve: ["http", "serve-model"],
  studio: ["studio"],
};

test("a room with doors is entered through them only", () => {
  for (const [room, names] of Object.entries(doors)) {
    const allowed = names.map((name) => `${room}/${name}.ts`);
    const outside = files.filter((file) => getLayer(file) !== room);
    const entered = outside.flatMap((file) =>
      listImports(file).flatMap((target) => (getLayer(target) === room ? [{ file, target }] : [])),
    );
    expect(entered.map(({ target }) => target)).toEqual(expect.arrayContaining([...allowed]));
    expect(entered.filter(({ target }) => !allowed.includes(target))).toEqual([]);
  }
});

test("no file of src/ imports the main entry point", () => {
  expect(files.filter((file) => listImports(file).includes(mainEntry))).toEqual([]);
});

test("package.json exports the main entry point and one per folder", () => {
  const { exports, types } = JSON.parse(readFileSync("package.json", "utf8")) as {
    exports: Record<string, unknown>;
    types: string;
  };
  const expected = Object.fromEntries(
    [["", "index"], ...Object.entries(entries).map(([name, file]) => [`/${name}`, file])].map(([name, file]) => [
      `.${name}`,
      { types: `./dist/${file}.d.ts`, default: `./dist/${file}.js` },
    ]),
  );
  // Browsers and workers have no files and no onnxruntime-node.
  const web = { types: "./dist/guard/web.d.ts", default: "./dist/guard/web.js" };
  const guard = { browser: web, workerd: web, types: "./dist/guard/index.d.ts", default: "./dist/guard/index.js" };
  expect(exports).toEqual({ ...expected, "./guard": guard });
  expect(types).toBe("./dist/index.d.ts");
  for (const file of Object.values(entries)) expect(files).toContain(`${file}.ts`);
});

test("every built-in method could have been written outside: what it imports is public", async () => {
  const modules = await Promise.all([
    import("../src/models/public.js"),
    import("../src/nn/public.js"),
    import("../src/tensor/public.js"),
  ]);
  const publicNames = new Set(modules.flatMap((module) => Object.keys(module)));
  const methodFiles = files.filter((file) => file.startsWith("methods/") && !/index|define-method/.test(file));
  const imported = methodFiles.flatMap((file) =>
    [...readSource(file).matchAll(/^import \{([^}]*)\} from "(?:\.\.\/)+(?:models|tensor|nn)\/[^"]*"/gm)].flatMap(
      ([, names]) => names!.split(",").map((name) => name.trim()),
    ),
  );
  const values = imported.filter((name) => name !== "" && !name.startsWith("type "));
  expect(values.length).toBeGreaterThan(20);
  expect([...new Set(values)].filter((name) => !publicNames.has(name))).toEqual([]);
});

test("the main entry point exports the actions and their types, name by name", () => {
  const lists = [...readSource(mainEntry).matchAll(/^export (?:type )?\{([^}]*)\}/gm)].map(([, names]) => names!);
  const names = lists.flatMap((list) => list.split(",").map((name) => name.trim())).filter((name) => name !== "");
  expect(readSource(mainEntry)).not.toMatch(/^export \*/m);
  // An action has one name, in the source and outside.
  expect(names.filter((name) => name.includes(" as "))).toEqual([]);
  expect(names.length).toBeGreaterThan(20);
  expect(names.length).toBeLessThanOrEqual(80);
});

/** The code of a file without comments. */
function readCode(file: string): string {
  return readSource(file).replaceAll(/\/\*[\s\S]*?\*\/|(?<!:)\/\/.*$/gm, "");
}

test("only one file knows the files of a run folder", () => {
  const runFiles = ["events.jsonl", "results.json", "config.yaml", "environment.json", "status.json", "timings.jsonl"];
  const owner = "runs/run-files.ts";
  for (const name of runFiles) expect(readCode(owner)).toContain(`"${name}"`);
  const others = files.filter((file) => file !== owner);
  const findings = others.flatMap((file) => {
    const code = readCode(file);
    return runFiles.filter((name) => code.includes(name)).map((name) => `${file}: ${name}`);
  });
  expect(findings).toEqual([]);
});

/** The files and packages that are loaded with a file. `import()` loads later, and types load nothing. */
function listLoaded(file: string, seen = new Set<string>()): Set<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  const statements = readCode(file).matchAll(/^(?:import|export) (?!type )(?:[^;"]*?\bfrom )?"([^"]+)"/gm);
  for (const [, path] of statements) {
    const target = relative(source, resolve(source, dirname(file), path!)).replace(/\.js$/, ".ts");
    if (path!.startsWith(".")) listLoaded(target, seen);
    else seen.add(path!);
  }
  return seen;
}

// Loading what a command does not need once doubled the time that it takes to start.
test("the most frequent commands load no figures, parsers of mail and tables, or searches that they do not use", () => {
  const slow = ["linkedom", "@observablehq/plot", "postal-mime", "hyparquet", "csv-parse/sync"];
  expect([...listLoaded("cli/commands/analyze.ts")]).toEqual(
    expect.arrayContaining(["linkedom", "@observablehq/plot"]),
  );
  const commands = ["train", "evaluate", "predict", "attack", "worker", "serve", "sweep", "table", "compare", "studio"];
  for (const command of commands) {
    const loaded = listLoaded(`cli/commands/${command}.ts`);
    expect(loaded.size).toBeGreaterThan(100);
    expect(slow.filter((name) => loaded.has(name)).map((name) => `${command}: ${name}`)).toEqual([]);
  }
  expect(listLoaded("cli/commands/train.ts")).not.toContain("attacks/recipes/index.ts");
});

test("the guard of browsers and workers loads nothing of Node.js", () => {
  const packages = [...listLoaded("guard/web.ts")].filter((name) => !name.endsWith(".ts"));
  expect(packages.sort()).toEqual(["@huggingface/tokenizers", "unhomoglyph"]);
});

test("files of runs, models, tokenizers and figures are opened only by files.ts, which checks links and sizes", () => {
  const guarded =
    /^(runs|settings|models|report|analysis|studio(?!\/page)|onnx|actions\/(load|push|model-card|export|gate)|text\/(tokenizer|vocab-txt|deberta))/;
  const reads =
    /\b(readFile|readFileSync|createReadStream|openSync|copyFile|cp)\(|import \{[^}]*\b(open|readFile|readFileSync|createReadStream|openAsBlob)\b[^}]*\} from "node:fs/;
  // These open files of this package or of this user's cache, or append to their own log.
  const own = ["runs/environment.ts", "studio/jobs.ts", "studio/page-files.ts", "models/inference/score-cache.ts"];
  const found = files.filter((file) => guarded.test(file) && !own.includes(file) && reads.test(readSource(file)));
  expect(found).toEqual([]);
  expect(reads.test('import { readFile } from "node:fs/promises";')).toBe(true);
});
