import { defineConfig } from "vitest/config";

export default defineConfig({
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
