import { spawn } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";
import { getBuildFolder } from "../../src/tensor/native.js";
import { chooseExtent } from "../extent.js";
import { findFreePort } from "./processes.js";

/** Starts sums of 2 MB over two processes, frees the tensors, and exits while Gloo's threads still use them. */
const program = `
const [addon, rank, port] = process.argv.slice(1);
const native = require(addon);
native.storeOpen("127.0.0.1", Number(port), rank === "0", 30, "exit");
const group = native.groupOpen("gloo", Number(rank), 2, "127.0.0.1", 30);
for (let i = 0; i < 24; i++) {
  const tensor = native.create(new Float32Array(1 << 19), [1 << 19], 6, 6);
  native.groupReduce(group, [tensor]);
  native.release([tensor]);
}
process.stdout.write("started", () => process.exit(0));`;

function runRank(rank: number, port: number): Promise<{ code: number | null; signal: string | null; output: string }> {
  const args = ["-e", program, join(getBuildFolder(), "temper.node"), String(rank), String(port)];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  return new Promise((resolve) => child.once("close", (code, signal) => resolve({ code, signal, output })));
}

it("a process that exits while Gloo's threads own tensors ends without a crash", async () => {
  for (let round = 0; round < chooseExtent(1, 3); round++) {
    const port = await findFreePort();
    const ended = await Promise.all([0, 1].map((rank) => runRank(rank, port)));
    expect(ended).toEqual([0, 1].map(() => ({ code: 0, signal: null, output: "started" })));
  }
});
