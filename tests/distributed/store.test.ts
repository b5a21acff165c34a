import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { readRendezvous, secretVariable } from "../../src/jobs/rendezvous.js";
import { nativeDistributed } from "../../src/tensor/native.js";
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
