import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { describeCrash } from "../../src/base/processes.js";
import { getBuildFolder } from "../../src/tensor/native.js";

// Node has its own handler for SIGSEGV, which must run before ours.
test.each(["SIGILL", "SIGSEGV"] as const)("a crash with %s ends the process with a message that helps", (signal) => {
  const addon = join(getBuildFolder(), "temper.node");
  const [before, after] = describeCrash(signal, "bf16").split(signal);
  const program = `require(${JSON.stringify(addon)}).reportCrashes("${before}", "${after}");
    process.kill(process.pid, "${signal}");
    setTimeout(() => {}, 60_000);`;
  const ended = spawnSync(process.execPath, ["-e", program], { encoding: "utf8" });
  expect(ended.signal).toBe(signal);
  expect(ended.stderr).toBe(`libtorch crashed with ${signal} in bf16; run with --precision fp32`);
});

// Reading beyond the memory of WebAssembly is a SIGSEGV that Node turns into an exception.
test("a fault of WebAssembly is still an exception", () => {
  const addon = join(getBuildFolder(), "temper.node");
  // (memory 1) (func (export "f") (drop (i32.load (i32.const -4))))
  const module = [
    [0, 97, 115, 109, 1, 0, 0, 0],
    [1, 4, 1, 96, 0, 0],
    [3, 2, 1, 0],
    [5, 3, 1, 0, 1],
    [7, 5, 1, 1, 102, 0, 0],
    [10, 10, 1, 8, 0, 65, 124, 40, 2, 0, 26, 11],
  ].flat();
  const program = `require(${JSON.stringify(addon)}).reportCrashes("crashed with ", "");
    const { f } = new WebAssembly.Instance(new WebAssembly.Module(Uint8Array.from(${JSON.stringify(module)}))).exports;
    try { f(); } catch (error) { console.log(error.message); }`;
  const ended = spawnSync(process.execPath, ["-e", program], { encoding: "utf8" });
  expect({ ...ended, pid: 0, output: [] }).toMatchObject({
    status: 0,
    stdout: "memory access out of bounds\n",
    stderr: "",
  });
});
