import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
  // Examples import the package by its name, as users do; here that is the source.
  resolve: { alias: { "temper-nlp": fileURLToPath(new URL("src/index.ts", import.meta.url)) } },
  test: {
    include: ["tests/**/*.test.ts"],
    pool: "forks",
    // Two workers of one thread each: the native engine is itself multi-threaded, and the machine is small.
    maxWorkers: 2,
    env: { OMP_NUM_THREADS: "1" },
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
