// The test files whose results depend on libtorch.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

const root = resolve(import.meta.dirname, "../..");
const addon = join(root, "src/tensor/native.ts");
/** Tests that start a browser compare pages, not numbers. */
const browser = "playwright-core";

/** They reach the addon, but no assertion is on a number that it computed: processes, plans, documents and texts. */
const withoutNumbers = [
  "actions/progress",
  "attacks/no-return",
  "base/data-files",
  "cli/executable",
  "examples/doc-comments",
  "guide-commands",
  "jobs/worker-process",
  "scripts/chaos",
  "sweeps/experiments",
  "sweeps/local",
  "sweeps/paper-settings",
  "sweeps/slurm-commands",
  "sweeps/work-request",
  "text/linear-time",
].map((name) => `tests/${name}.test.ts`);

/**
 * The source files behind the entry points of the package, as vitest.config.ts has them.
 * @param {string} name
 */
function resolvePackage(name) {
  const room = name.slice("temper-nlp".length + 1);
  const candidates = room ? [`${room}/public.ts`, `${room}/index.ts`, `proofs/${room}/index.ts`] : ["index.ts"];
  return candidates.map((file) => join(root, "src", file)).find((file) => existsSync(file));
}

/**
 * Finds a file. A compiled one stands for its source.
 * @param {string} path
 */
function findSource(path) {
  const source = path.replace(join(root, "dist/"), join(root, "src/"));
  return [source, source.replace(/\.js$/, ".ts")].find((file) => /\.(ts|mjs)$/.test(file) && existsSync(file));
}

/** @param {IterableIterator<RegExpExecArray>} matches */
const listGroups = (matches) => [...matches].map(([, group = ""]) => group);

/**
 * Lists what a file loads: its imports, and the programs of the repository that a test names.
 * @param {string} file
 */
function listLoaded(file) {
  const text = readFileSync(file, "utf8");
  const specifiers = [
    ...listGroups(text.matchAll(/^(?:import|export)\b(?!\s+type\b)[^;"']*?"([^"]+)"/gms)),
    ...listGroups(text.matchAll(/\bimport\("([^"]+)"\)/g)),
  ];
  const isTest = file.startsWith(join(root, "tests/"));
  const programs = isTest ? listGroups(text.matchAll(/["'`]((?:dist|scripts|tools)\/[\w./-]+\.m?js)["'`]/g)) : [];
  const local = specifiers.flatMap((specifier) => {
    if (specifier === browser) return [browser];
    if (/^temper-nlp(\/|$)/.test(specifier)) return resolvePackage(specifier) ?? [];
    return specifier.startsWith(".") ? (findSource(resolve(dirname(file), specifier)) ?? []) : [];
  });
  return [...local, ...programs.flatMap((path) => findSource(join(root, path)) ?? [])];
}

/** Lists the tests that reach the addon through what they load, except those that start a browser or compare no numbers. */
export function listNumericTests() {
  /** @type {Map<string, string[]>} */
  const known = new Map();
  const reach = (/** @type {string} */ test) => {
    const seen = new Set([test]);
    // A set that grows is visited to its end.
    for (const file of seen) {
      if (file === browser) continue;
      const loaded = known.get(file) ?? listLoaded(file);
      known.set(file, loaded);
      for (const each of loaded) seen.add(each);
    }
    return seen;
  };
  const tests = readdirSync(join(root, "tests"), { recursive: true, encoding: "utf8" }).filter((file) =>
    file.endsWith(".test.ts"),
  );
  return tests
    .map((file) => join(root, "tests", file))
    .filter((file) => {
      const seen = reach(file);
      return seen.has(addon) && !seen.has(browser);
    })
    .map((file) => relative(root, file))
    .filter((file) => !withoutNumbers.includes(file))
    .sort();
}
