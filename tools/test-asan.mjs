// `make test-asan`: builds the addon with AddressSanitizer into build/asan, and runs the tests of tensors, kernels and
// serving with it. The exit code is 1 if a test fails or the sanitizer reports an error.
//   node tools/test-asan.mjs [TEST…]
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { buildAddon, completeBuild } from "../scripts/setup/build.mjs";
import { findLibtorch } from "../scripts/setup/find.mjs";
import { packageRoot as root } from "../scripts/setup/setup.mjs";

const folder = join(root, "build/asan");
const reports = join(folder, "reports");
const tests = process.argv.length > 2 ? process.argv.slice(2) : ["tests/tensor", "tests/nn", "tests/serve"];

// The sanitizer is for code of the CPU: CUDA's driver does not work with it.
const env = { ...process.env, TEMPER_CUDA: "0" };
const { libtorch } = findLibtorch({ root, env });
if (!libtorch) throw new Error("libtorch was not found; run `make setup`");
buildAddon({ root, folder, libtorch, env, clean: false, hasAsan: true });
completeBuild(root, folder, libtorch);

rmSync(reports, { recursive: true, force: true });
mkdirSync(reports);
// The library must be loaded before Node. Node itself frees nothing at exit, so leaks are not searched for.
const library = execFileSync(process.env.CXX ?? "c++", ["-print-file-name=libasan.so"], { encoding: "utf8" }).trim();
const options = ["detect_leaks=0", "halt_on_error=1", `log_path=${join(reports, "asan")}`].join(":");
// TEMPER_ASAN skips tests of the memory's cache, which this build does not have.
const testEnv = { ...env, TEMPER_ASAN: "1", TEMPER_BUILD: folder, LD_PRELOAD: library, ASAN_OPTIONS: options };
const { status } = spawnSync(
  process.execPath,
  [join(root, "node_modules/vitest/vitest.mjs"), "run", "--testTimeout=120000", ...tests],
  { cwd: root, stdio: "inherit", env: testEnv },
);

const found = readdirSync(reports);
for (const name of found) console.error(readFileSync(join(reports, name), "utf8"));
console.log(`AddressSanitizer: ${found.length} reports`);
process.exitCode = status === 0 && found.length === 0 ? 0 : 1;
