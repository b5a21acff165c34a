import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const source = fileURLToPath(new URL("src", import.meta.url));

export default defineConfig({
  // Examples and tests import the package by its name, as users do. Here that is the source.
  resolve: {
    alias: [
      { find: /^temper-nlp$/, replacement: `${source}/index.ts` },
      { find: /^temper-nlp\/(\w+)$/, replacement: `${source}/$1/index.ts` },
    ],
  },
  test: {
    include: ["tests/**/*.test.ts"],
    pool: "forks",
    // Two workers of one thread each, because the native engine is multi-threaded, too.
    maxWorkers: 2,
    // No test reaches the real hub. Tests with a hub of their own are online.
    env: { OMP_NUM_THREADS: "1", HF_HUB_OFFLINE: "1" },
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
