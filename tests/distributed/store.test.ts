import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { readRendezvous, secretVariable } from "../../src/jobs/rendezvous.js";
import { getBuildFolder, nativeDistributed } from "../../src/tensor/native.js";
import { chooseExtent } from "../extent.js";
import { findFreePort } from "./processes.js";

/** The addresses, in hex, at which this host listens on a port. */
function listAddresses(port: number): string[] {
  return ["tcp", "tcp6"].flatMap((name) =>
    readFileSync(`/proc/net/${name}`, "utf8")
      .split("\n")
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter(([, local, , state]) => state === "0A" && Number.parseInt(local!.split(":")[1]!, 16) === port)
      .map(([, local]) => local!.split(":")[0]!),
  );
}

it.runIf(process.platform === "linux")("on one host, the store listens at the loopback address only", async () => {
  const native = nativeDistributed();
  const port = await findFreePort();
  expect(native.storeOpen("127.0.0.1", port, true, 5, "secret")).toBe(port);
  try {
    expect(listAddresses(port)).toEqual(["0100007F"]);
    native.storeSet("name", "value");
    expect(native.storeGet("name")).toBe("value");
  } finally {
    native.storeClose();
  }
});

it("keys of processes with another secret, and values that are too long, are not read", async () => {
  const native = nativeDistributed();
  const port = await findFreePort();
  native.storeOpen("127.0.0.1", port, true, 5, "ours");
  try {
    native.storeSet("failed", "no");
    native.storeSet("long", "x".repeat((1 << 20) + 1));
    expect(() => native.storeGet("long")).toThrow("no process of this run wrote");
    native.storeSet("ours/failed", "planted");
    expect(native.storeGet("failed")).toBe("no");
  } finally {
    native.storeClose();
  }
});

it("processes read their secret from the environment", () => {
  const env = { WORLD_SIZE: "2", RANK: "0", MASTER_ADDR: "127.0.0.1", MASTER_PORT: "1234", [secretVariable]: "s" };
  expect(readRendezvous(env, 5)).toMatchObject({ secret: "s" });
});

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
