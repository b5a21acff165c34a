import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const source = fileURLToPath(new URL("src", import.meta.url));

// Loading the library takes longer than most tests, so files share a process. A file that replaces
// modules or measures the bytes of its process gets its own. The number of live tensors changes only
// while a test runs, so tests that count them share, too.
const needsProcess = /vi\.mock|process\.env\.\w+ = |delete process\.env|memoryUsage|getMemoryStats\(\)(?!\.tensors)/;
const files = readdirSync("tests", { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".test.ts"));
const separate = files
  .map((name) => join("tests", name))
  .filter((path) => needsProcess.test(readFileSync(path, "utf8")));

export default defineConfig({
  // Examples and tests import the package by its name, as users do. Here that is the source.
  resolve: {
    alias: [
      { find: /^temper-nlp$/, replacement: `${source}/index.ts` },
      { find: /^temper-nlp\/(models|tensor|nn)$/, replacement: `${source}/$1/public.ts` },
      { find: /^temper-nlp\/(\w+)$/, replacement: `${source}/$1/index.ts` },
    ],
  },
  test: {
    pool: "forks",
    // Three workers of one thread each keep two cores busy: many tests wait for other processes.
    maxWorkers: 3,
    // A busy host answers late.
    expect: { poll: { timeout: 15_000 } },
    // No test reaches the real hub. Tests with a hub of their own are online.
    env: { OMP_NUM_THREADS: "1", HF_HUB_OFFLINE: "1" },
    testTimeout: 60_000,
    hookTimeout: 60_000,
    setupFiles: ["tests/restore-environment.ts"],
    projects: [
      { extends: true, test: { name: "separate", include: separate } },
      { extends: true, test: { name: "shared", include: ["tests/**/*.test.ts"], exclude: separate, isolate: false } },
    ],
  },
});
