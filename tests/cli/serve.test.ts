import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { UserError } from "../../src/base/errors.js";
import { serve as serveModel } from "../../src/serve/serve-model.js";
import { getMemoryStats } from "../../src/tensor/index.js";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { chooseExtent } from "../extent.js";
import { expectClose } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { main } from "./built.js";
import { invoke } from "./invoke.js";

const columns = ["--text-column", "text", "--label-column", "label"];
const folder = temporaryFolder();
const victims: Record<string, TinyVictim> = {};
const children: ChildProcess[] = [];

beforeAll(async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  for (const tokenization of ["subword", "word"] as const)
    victims[tokenization] = await tinyVictim(join(folder, tokenization), { tokenization });
});
afterAll(() => {
  for (const child of children) child.kill("SIGKILL");
  vi.unstubAllEnvs();
});

interface Server {
  readonly url: string;
  readonly child: ChildProcess;
}

/** Starts a real process on a free port. Resolves when it listens. */
async function serve(model: string): Promise<Server> {
  const child = spawn(process.execPath, [main, "serve", model, "--port", "0", "--device", "cpu", "--threads", "1"], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  children.push(child);
  const [chunk] = (await once(child.stdout!, "data")) as [Buffer];
  return { url: chunk.toString().trim(), child };
}

const servers = new Map<string, Promise<Server>>();

/** The server of a victim. The tests share it until one of them stops it. */
function getServer(tokenization: string): Promise<Server> {
  const server = servers.get(tokenization) ?? serve(victims[tokenization]!.run);
  servers.set(tokenization, server);
  return server;
}

/** Stops a server with a signal and expects that it ends well. */
async function stopServer(tokenization: string, signal: NodeJS.Signals): Promise<void> {
  const { child } = await getServer(tokenization);
  servers.delete(tokenization);
  child.kill(signal);
  expect(await once(child, "exit")).toEqual([0, null]);
}

const headers = { "content-type": "application/json" };
const post = (url: string, body: string) => fetch(url, { method: "POST", headers, body });

describe("temper serve", () => {
  test("rejects a request of a million invalid texts by their number", async () => {
    const { url } = await getServer("subword");
    const answer = await post(url, `{"texts":[${"1,".repeat(chooseExtent(1_000_000, 3_000_000))}1]}`);
    expect(answer.status).toBe(413);
    expect(((await answer.json()) as { error: string }).error).toMatch(/at most \d+ /);
    const few = await post(url, `{"texts":[${"1,".repeat(99)}1]}`);
    expect(few.status).toBe(400);
    const { error } = (await few.json()) as { error: string };
    expect(error.split("\n")).toHaveLength(21);
    expect(error).toMatch(/and 80 more$/);
  });

  // With words in make test-long.
  test.each(["subword", "word"].slice(0, chooseExtent(1, 2)))(
    "an attack on the endpoint is identical to an attack on the model (%s)",
    async (tokenization) => {
      const { run, data, substitutions } = victims[tokenization]!;
      const { url } = await getServer(tokenization);
      const flags = ["--data", data, ...columns, "--num-examples", "20", "--quiet", "--substitutions", substitutions];
      const attacks = ["--attack", "pwws", "--attack", "genetic:population=5,iterations=3"];
      const here = await invoke([
        "attack",
        run,
        ...flags,
        ...attacks,
        "--out",
        join(folder, `${tokenization}-here`),
        "--device",
        "cpu",
        "--threads",
        "1",
        // The endpoint computes in float32.
        "--precision",
        "fp32",
      ]);
      const there = await invoke(["attack", url, ...flags, ...attacks, "--out", join(folder, `${tokenization}-there`)]);
      expect([here, there]).toMatchObject([{ code: 0 }, { code: 0 }]);
      for (const attack of ["pwws", "genetic"]) {
        const results = ["here", "there"].map((place) => {
          const lines = readFileSync(join(folder, `${tokenization}-${place}`, `${attack}.jsonl`), "utf8")
            .trim()
            .split("\n")
            .slice(1);
          return lines.map((line) => {
            const {
              checksum: _,
              before,
              after,
              ...rest
            } = JSON.parse(line) as Record<string, unknown> & { before: number[]; after: number[] };
            return {
              ...rest,
              before: before.map((value) => value.toFixed(4)),
              after: after.map((value) => value.toFixed(4)),
            };
          });
        });
        expect(results[1]).toEqual(results[0]);
      }
      const journal = join(folder, `${tokenization}-there`, "pwws.jsonl");
      expect(await invoke(["verify", journal, "--model", url, "--quiet"])).toMatchObject({ code: 0 });
      if (tokenization === "subword") await stopServer(tokenization, "SIGINT");
    },
  );

  test("describes the model and rejects invalid requests", async () => {
    const { url } = await getServer("word");
    expect(await (await fetch(url)).json()).toMatchObject({
      labels: ["negative", "positive"],
      tokenization: "word",
      unkToken: "[UNK]",
    });
    const answers: [string, number, RegExp][] = [
      ["hello", 400, /Expected JSON/],
      ['{"text": "a"}', 400, /texts/],
      ['{"texts": "a"}', 400, /texts: expected array/],
      ['{"texts": ["a", 3]}', 400, /texts\[1\]/],
      ['{"texts": [["a", "b", "c"]]}', 400, /texts\[0\]/],
      [JSON.stringify({ texts: new Array(5000).fill("a") }), 413, /at most 4096 texts/],
      [JSON.stringify({ texts: ["a".repeat(17 << 20)] }), 413, /at most 16777216 bytes/],
    ];
    for (const [body, status, message] of answers) {
      const response = await post(url, body);
      expect([response.status, ((await response.json()) as { error: string }).error]).toEqual([
        status,
        expect.stringMatching(message),
      ]);
    }
    expect((await fetch(url, { method: "DELETE" })).status).toBe(405);
    expect(await (await post(url, '{"texts": []}')).json()).toEqual({ predictions: [], probabilities: [] });
    const pair = (await (await post(url, '{"texts": ["the film was good", ["good", "bad"]]}')).json()) as {
      probabilities: number[][];
    };
    for (const row of pair.probabilities) expectClose(row[0]! + row[1]!, 1);
    const second = await invoke(["serve", victims.subword!.run, "--port", new URL(url).port, "--device", "cpu"]);
    expect(second).toMatchObject({ code: 2, stderr: expect.stringContaining("The port is in use.") });
    await stopServer("word", "SIGTERM");
  });
});

describe("serveModel", () => {
  /** The processes that compute for servers of this process. */
  const listModelProcesses = (): number[] => {
    const { stdout } = spawnSync("pgrep", ["-P", String(process.pid), "-f", "serve/model-process.js"]);
    return stdout.toString().trim().split("\n").filter(Boolean).map(Number);
  };

  test("computes in another process, which ends with the server", async () => {
    const before = getMemoryStats().tensors;
    const served = await serveModel({ model: victims.word!.run, port: 0, device: "cpu" });
    expect(listModelProcesses()).toHaveLength(1);
    expect((await post(served.url, '{"texts": ["the film was good", "[UNK] bad"]}')).status).toBe(200);
    expect(getMemoryStats().tensors).toBe(before);
    await served.close();
    expect(listModelProcesses()).toEqual([]);
    await expect(serveModel({ model: folder, port: 0, device: "cpu" })).rejects.toThrow(UserError);
    expect(listModelProcesses()).toEqual([]);
  });

  test("a crash of that process fails the requests in it, and the next request loads the model again", async () => {
    await using served = await serveModel({ model: victims.word!.run, port: 0, device: "cpu" });
    const ask = () => post(served.url, '{"texts": ["the film was good"]}');
    const before = await (await ask()).json();
    const [crashed] = listModelProcesses();
    process.kill(crashed!, "SIGKILL");
    await expect.poll(listModelProcesses).toEqual([]);
    await expect.poll(async () => (await ask()).status).toBe(200);
    expect(await (await ask()).json()).toEqual(before);
    expect(listModelProcesses()).not.toEqual([crashed]);
  });
});
