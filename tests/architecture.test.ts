import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

/** From the bottom up: a folder may import those before it. Files at the top of src/ are helpers below all folders. */
const layers = [
  "helpers",
  "tensor",
  "nn",
  "text",
  "models",
  "tasks",
  "attacks",
  "evaluation",
  "train",
  "methods",
  "runs",
  "analysis",
  "report",
  "sweeps",
  "cli",
];

const source = resolve(import.meta.dirname, "../src");
const publicSurface = "index.ts";

const files = readdirSync(source, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));

function layerOf(file: string): string {
  return file.includes("/") ? file.slice(0, file.indexOf("/")) : "helpers";
}

/** The modules of ours that a file names, in imports, exports and import() alike. */
function importsOf(file: string): string[] {
  const text = readFileSync(join(source, file), "utf8");
  const named = [...text.matchAll(/(?:\bfrom|\bimport\(|^import)\s*"(\.[^"]+)"/gm)].map(([, path]) => path!);
  return named.map((path) => relative(source, resolve(source, dirname(file), path)).replace(/\.js$/, ".ts"));
}

/** Whether every import of `file` leads to its own folder or one below. */
function upward(file: string, imports: readonly string[]): string[] {
  const own = layers.indexOf(layerOf(file));
  return imports.filter((target) => layers.indexOf(layerOf(target)) > own).map((target) => `${file} -> ${target}`);
}

test("every folder of src/ has its place", () => {
  expect([...new Set(files.map(layerOf))].filter((layer) => !layers.includes(layer))).toEqual([]);
});

test("imports are found, and lead to files that are there", () => {
  const all = files.flatMap((file) => importsOf(file).map((target) => ({ file, target })));
  expect(all).toContainEqual({ file: "cli/main.ts", target: "cli/encode.ts" });
  expect(all).toContainEqual({ file: "tensor/native.ts", target: "errors.ts" });
  expect(all.filter(({ target }) => !files.includes(target))).toEqual([]);
});

// Since the folders stand in one order, this also means that no two of them depend on each other, directly or around a corner.
test("dependencies between folders point down only", () => {
  expect(upward("tensor/ops.ts", ["nn/layers.ts", "tensor/door.ts", "errors.ts"])).toEqual([
    "tensor/ops.ts -> nn/layers.ts",
  ]);
  expect(files.filter((file) => file !== publicSurface).flatMap((file) => upward(file, importsOf(file)))).toEqual([]);
});

test("nothing inside imports the public surface", () => {
  expect(files.filter((file) => importsOf(file).includes(publicSurface))).toEqual([]);
});
