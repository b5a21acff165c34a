import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { CrashReporter } from "./tests/crash-reporter.js";
import { RepeatReporter } from "./tests/repeat-reporter.js";

const [source, dist] = ["src", "dist"].map((name) => fileURLToPath(new URL(name, import.meta.url))) as [string, string];

// Loading the library takes longer than most tests, so files share processes. These files measure the bytes of their
// process. Each gets a process for itself.
const alone = [
  "tests/attacks/http-victim.test.ts",
  "tests/nn/adamw.test.ts",
  "tests/nn/attention.test.ts",
  "tests/actions/attack/attack.test.ts",
  "tests/tensor/leak.test.ts",
  "tests/tensor/scope.test.ts",
];

// These files replace modules, which needs the sources.
const replacing = [
  "tests/models/captured-classifier.test.ts",
  "tests/hub/hub.test.ts",
  "tests/tasks/hub-tasks.test.ts",
  "tests/tensor/graph.test.ts",
  "tests/tensor/native.test.ts",
  "tests/train/cuda-graph-runner.test.ts",
];

// Small files that take long. Without the durations of an earlier run, Vitest would start them last.
const slow = [
  "tests/cli/executable.test.ts",
  "tests/distributed/data-parallel.test.ts",
  "tests/guide-commands.test.ts",
  "tests/scripts/chaos.test.ts",
  "tests/scripts/demo.test.ts",
  "tests/sweeps/command.test.ts",
  "tests/sweeps/local.test.ts",
  "tests/sweeps/stages.test.ts",
];

for (const file of [...alone, ...replacing, ...slow])
  if (!existsSync(file)) throw new Error(`vitest.config.ts lists ${file}, which does not exist.`);

/** Imports compiled modules instead of sources: Node loads them without Vite, which is faster. */
const useCompiled: Plugin = {
  name: "compiled",
  enforce: "pre",
  async resolveId(id, importer, options) {
    const found = await this.resolve(id, importer, { ...options, skipSelf: true });
    if (!found?.id.startsWith(`${source}/`)) return null;
    const compiled = found.id.replace(source, dist).replace(/\.ts$/, ".js");
    return existsSync(compiled) ? compiled : null;
  },
};

const server = { deps: { external: [/\/dist\/.*\.js$/] } };

class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isSlow = ({ moduleId }: TestSpecification): number => Number(slow.some((file) => moduleId.endsWith(file)));
    return (await super.sort(files)).toSorted((a, b) => isSlow(b) - isSlow(a));
  }
}

export default defineConfig({
  // Examples and tests import the package by its name, as users do. Here that is the source.
  resolve: {
    alias: [
      { find: /^temper-nlp$/, replacement: `${source}/index.ts` },
      { find: /^temper-nlp\/(models|tensor|nn)$/, replacement: `${source}/$1/public.ts` },
      { find: "temper-nlp/certificates", replacement: `${source}/proofs/certificates/index.ts` },
      { find: /^temper-nlp\/(\w+)$/, replacement: `${source}/$1/index.ts` },
    ],
  },
  test: {
    pool: "forks",
    // With a larger space for new objects, collecting garbage takes less time.
    execArgv: ["--max-semi-space-size=64"],
    // Three workers of one thread each keep two cores busy: many tests wait for other processes.
    maxWorkers: 3,
    // Transformed modules are kept in node_modules until their source changes.
    experimental: { fsModuleCache: true },
    reporters: ["default", new CrashReporter(), new RepeatReporter()],
    // These limits only end a test that hangs. A busy host may need twenty times as long as a quiet one.
    expect: { poll: { timeout: 120_000 } },
    testTimeout: 600_000,
    hookTimeout: 600_000,
    // No test reaches the real hub. Tests with a hub of their own are online.
    env: { OMP_NUM_THREADS: process.env.OMP_NUM_THREADS || "1", HF_HUB_OFFLINE: "1" },
    sequence: { sequencer: SlowFirst },
    setupFiles: ["tests/restore-environment.ts"],
    globalSetup: ["tests/suite-setup.ts"],
    projects: [
      { extends: true, test: { name: "replacing", include: replacing } },
      { extends: true, plugins: [useCompiled], test: { name: "alone", include: alone, server } },
      {
        ...{ extends: true, plugins: [useCompiled] },
        test: {
          ...{ name: "shared", include: ["tests/**/*.test.ts"], exclude: [...alone, ...replacing] },
          ...{ isolate: false, server },
        },
      },
    ],
  },
});
