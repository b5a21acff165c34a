// The tests of tensors and layers, in worker processes of another Node.js (TEMPER_TEST_NODE). Vitest itself and the
// compilation of the tests stay on this machine's own.
import { mergeConfig } from "vitest/config";
import main from "../../vitest.config.ts";

// Vitest starts its workers with this program.
process.execPath = process.env.TEMPER_TEST_NODE ?? process.execPath;
const { projects: _, ...test } = main.test;
const include = ["tests/tensor/*.test.ts", "tests/nn/*.test.ts"];
// These start processes that crash on purpose. Under qemu, they would need a program of their own.
const exclude = ["tests/tensor/crash.test.ts"];
export default mergeConfig(
  { ...main, test },
  { test: { include, exclude, maxWorkers: 2, root: new URL("../..", import.meta.url).pathname } },
);
