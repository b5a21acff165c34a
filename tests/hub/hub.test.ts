import { execFileSync } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeEach, describe, expect, test, vi } from "vitest";
import { UserError } from "../../src/base/errors.js";
import { listen } from "../../src/base/events.js";
import { waitForLock } from "../../src/base/lock.js";
import * as hubFiles from "../../src/hub/hub-cache.js";
import { createHubFetch, type HubRepo, readHubSettings } from "../../src/hub/hub-connection.js";
import { resolveModel } from "../../src/models/checkpoint/resolve-model.js";
import { findPython, runPython } from "../python.js";
import { temporaryFolder } from "../temporary.js";
import { blobName, sha256, startFakeHub } from "./fake-hub.js";

const folder = temporaryFolder();
const cache = join(folder, "home", "hub");
const hub = await startFakeHub();
afterAll(() => hub.close());

const commit = "a".repeat(40);
const weights = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 31) % 251));
const files = {
  "config.json": Buffer.from('{"model_type": "bert"}'),
  "model.safetensors": weights,
  "1/vocab é.txt": Buffer.from("a\nb\n"),
  empty: Buffer.alloc(0),
};
const repo = { type: "model", name: "owner/name" } as const;
const storage = join(cache, "models--owner--name");
const blob = join(storage, "blobs", sha256(weights));
const partials = (): string[] => readdirSync(join(storage, "blobs")).filter((name) => name.endsWith(".incomplete"));
const { downloadHubSnapshot, openHubSnapshot } = hubFiles;
async function downloadHubFile(from: HubRepo, path: string, options = {}, hub = hubFiles): Promise<string> {
  const snapshot = await hub.openHubSnapshot(from);
  const file = (await hub.listHubFiles(snapshot)).find((each) => each.path === path);
  return hub.downloadHubFile(snapshot, file!, options);
}
const listHubFiles = async (from: HubRepo): Promise<string[]> =>
  (await hubFiles.listHubFiles(await openHubSnapshot(from))).map(({ path }) => path);
const getAll = (): Promise<string> => downloadHubSnapshot(repo, (paths) => paths);
const getWeights = (): Promise<string> => downloadHubFile(repo, "model.safetensors");

beforeEach(() => {
  vi.unstubAllEnvs();
  for (const name of ["HF_TOKEN", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "XDG_CACHE_HOME"])
    vi.stubEnv(name, "");
  vi.stubEnv("HF_HOME", join(folder, "home"));
  vi.stubEnv("HF_ENDPOINT", `${hub.url}/`);
  rmSync(join(folder, "home"), { recursive: true, force: true });
  hub.requests.length = 0;
  hub.faults.length = 0;
  hub.repos.clear();
  hub.repos.set("models/owner/name", { commit, files });
});

describe("cache", () => {
  test("has blobs, a reference and relative links, like huggingface_hub", async () => {
    const snapshot = await getAll();
    expect(snapshot).toBe(join(storage, "snapshots", commit));
    expect(readFileSync(join(storage, "refs", "main"), "utf8")).toBe(commit);
    for (const [path, bytes] of Object.entries(files)) {
      expect(readFileSync(join(snapshot, path)).equals(bytes), path).toBe(true);
      expect(lstatSync(join(snapshot, path)).isSymbolicLink()).toBe(true);
      expect(readFileSync(join(storage, "blobs", blobName(path, bytes))).equals(bytes)).toBe(true);
    }
    expect(readlinkSync(join(snapshot, "1", "vocab é.txt"))).toBe(
      `../../../blobs/${blobName("1/vocab é.txt", files["1/vocab é.txt"])}`,
    );
    expect(partials()).toEqual([]);
  });

  const python = findPython("huggingface_hub");
  test.skipIf(python === null)("huggingface_hub can read it (skipped without a Python that has it)", async () => {
    await getAll();
    const program = `
import json, sys
from huggingface_hub import scan_cache_dir, snapshot_download
info = scan_cache_dir(sys.argv[1])
path = snapshot_download("owner/name", cache_dir=sys.argv[1], local_files_only=True)
print(json.dumps([path, [str(w) for w in info.warnings], [[r.repo_id, r.nb_files, r.size_on_disk] for r in info.repos]]))`;
    const size = Object.values(files).reduce((total, bytes) => total + bytes.length, 0);
    expect(runPython(python!, program, cache)).toEqual([
      join(storage, "snapshots", commit),
      [],
      [["owner/name", 4, size]],
    ]);
  });

  test("downloads content once, and follows a branch that moved", async () => {
    await getAll();
    hub.requests.length = 0;
    await getAll();
    expect(hub.requests.filter((request) => request.includes("/resolve/"))).toEqual([]);
    const moved = "b".repeat(40);
    hub.repos.set("models/owner/name", { commit: moved, files: { ...files, "config.json": Buffer.from("{}") } });
    const snapshot = await getAll();
    expect(snapshot).toBe(join(storage, "snapshots", moved));
    expect(hub.requests.filter((request) => request.includes("/resolve/"))).toEqual([
      `GET /owner/name/resolve/${moved}/config.json`,
    ]);
    expect(readFileSync(join(storage, "refs", "main"), "utf8")).toBe(moved);
  });

  test("returns one file of a dataset, and downloads it once", async () => {
    hub.repos.set("datasets/glue", { commit, files: { "sst2/train.parquet": weights } });
    const sst2 = { type: "dataset", name: "glue", revision: commit } as const;
    expect(await listHubFiles(sst2)).toEqual(["sst2/train.parquet"]);
    const path = await downloadHubFile(sst2, "sst2/train.parquet");
    expect(path).toBe(join(cache, "datasets--glue", "snapshots", commit, "sst2", "train.parquet"));
    expect(readFileSync(path).equals(weights)).toBe(true);
    hub.requests.length = 0;
    await downloadHubFile(sst2, "sst2/train.parquet");
    expect(hub.requests).toEqual([`GET /api/datasets/glue/tree/${commit}`]);
  });

  test("only the ONNX file, the tokenizer and the config are downloaded without libtorch", async () => {
    const onnx = ["onnx/model.onnx", "onnx/model_fp16.onnx", "onnx/model_quantized.onnx"];
    const names = ["config.json", "model.safetensors", ...onnx, "tokenizer.json"];
    hub.repos.set("models/owner/onnx", {
      commit,
      files: Object.fromEntries(
        [...names, "onnx/model.onnx_data", "README.md"].map((name) => [name, Buffer.from(name)]),
      ),
    });
    // Without an addon, ONNX is the default.
    vi.stubEnv("TEMPER_BUILD", join(folder, "no-addon"));
    const { folder: snapshot } = await resolveModel("hf:owner/onnx");
    const found = readdirSync(snapshot, { recursive: true, encoding: "utf8" }).filter((name) => /\./.test(name));
    expect(found.sort()).toEqual(["config.json", "onnx/model.onnx", "onnx/model.onnx_data", "tokenizer.json"]);
    vi.stubEnv("TEMPER_BACKEND", "onnx");
    await expect(resolveModel("hf:owner/name")).rejects.toThrow(/expected onnx\/model\.onnx .* has neither/);
    vi.stubEnv("TEMPER_BACKEND", "libtorch");
    await resolveModel("owner/onnx");
    expect(existsSync(join(snapshot, "model.safetensors"))).toBe(true);
  });

  test("repairs a dangling link", async () => {
    await getAll();
    rmSync(blob);
    expect(readFileSync(await getWeights()).equals(weights)).toBe(true);
  });
});

describe("download", () => {
  test("reports progress and resumes after a lost connection", async () => {
    hub.faults.push({ cutAfter: 100_000 }, { cutAfter: 50_000 });
    const seen: number[] = [];
    const path = await downloadHubFile(repo, "model.safetensors", {
      ...listen({
        download({ file, received, total }) {
          expect([file, total]).toEqual(["model.safetensors", weights.length]);
          seen.push(received);
        },
      }),
    });
    expect(readFileSync(path).equals(weights)).toBe(true);
    expect(hub.requests.slice(-2).map((request) => request.split(" ").at(-1))).toEqual([
      "bytes=100000-",
      "bytes=150000-",
    ]);
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
    expect(seen.at(-1)).toBe(weights.length);
  });

  test("keeps a partial download and resumes it the next time", async () => {
    hub.faults.push({ cutAfter: 120_000 }, { cutAfter: 0 }, { cutAfter: 0 }, { cutAfter: 0 });
    await expect(getWeights()).rejects.toThrow(
      /cannot download model owner\/name from http.*Check the network.*Downloaded data is kept/,
    );
    expect(partials()).toHaveLength(1);
    hub.requests.length = 0;
    expect(readFileSync(await getWeights()).equals(weights)).toBe(true);
    expect(hub.requests.at(-1)).toMatch(/bytes=120000-$/);
    expect(partials()).toEqual([]);
  });

  test("continues what a dead process has left, and waits for a running one", async () => {
    const pid = Number(execFileSync("sh", ["-c", "echo $$"], { encoding: "utf8" }));
    const lock = `${blob}.temper.lock`;
    mkdirSync(join(storage, "blobs"), { recursive: true });
    writeFileSync(lock, JSON.stringify({ pid, host: hostname(), started: "1" }));
    writeFileSync(`${blob}.temper.incomplete`, weights.subarray(0, 1000));
    await getWeights();
    expect(hub.requests.at(-1)).toMatch(/bytes=1000-$/);
    expect(readdirSync(join(storage, "blobs"))).toEqual([sha256(weights)]);
    rmSync(blob);
    const unlock = await waitForLock(lock);
    hub.requests.length = 0;
    const waiting = getWeights();
    await delay(300);
    expect(hub.requests.filter((request) => request.includes("/resolve/"))).toEqual([]);
    writeFileSync(blob, weights);
    unlock();
    await waiting;
    expect(hub.requests.filter((request) => request.includes("/resolve/"))).toEqual([]);
  });

  test("starts over if the server does not support ranges or the partial file is wrong", async () => {
    hub.faults.push({ ignoreRange: true });
    mkdirSync(join(storage, "blobs"), { recursive: true });
    writeFileSync(`${blob}.temper.incomplete`, weights.subarray(0, 500));
    expect(readFileSync(await getWeights()).equals(weights)).toBe(true);
    for (const wrong of [Buffer.alloc(700, "?"), Buffer.alloc(weights.length + 10), Buffer.alloc(weights.length)]) {
      rmSync(blob);
      writeFileSync(`${blob}.temper.incomplete`, wrong);
      expect(readFileSync(await getWeights()).equals(weights)).toBe(true);
    }
  });

  test("rejects damaged content and never caches it", async () => {
    hub.faults.push({ corrupt: true });
    await expect(getWeights()).rejects.toThrow(/does not match its hash/);
    expect(existsSync(blob)).toBe(false);
    expect(readFileSync(await getWeights()).equals(weights)).toBe(true);
  });

  test("retries if the server is overloaded", async () => {
    await downloadHubFile(repo, "config.json");
    const pinned = { ...repo, revision: commit };
    hub.faults.push({ status: 503 }, { status: 429 });
    expect(readFileSync(await downloadHubFile(pinned, "model.safetensors")).equals(weights)).toBe(true);
  });

  test("concurrent downloads produce one correct file", async () => {
    // A second copy of the module acts like a second process, because they share only the disk.
    vi.resetModules();
    const other = await import("../../src/hub/hub-cache.js");
    hub.faults.push({ cutAfter: 1000 }, { cutAfter: 2000 });
    const paths = await Promise.all([
      getWeights(),
      downloadHubFile(repo, "model.safetensors", {}, other),
      getAll(),
      downloadHubFile(repo, "config.json", {}, other),
    ]);
    expect(readFileSync(paths[0]).equals(weights)).toBe(true);
    expect(paths[1]).toBe(paths[0]);
    expect(partials()).toEqual([]);
  });
});

describe("offline", () => {
  test("uses the cache without a request", async () => {
    await getAll();
    hub.requests.length = 0;
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    expect(await getAll()).toBe(join(storage, "snapshots", commit));
    expect(await listHubFiles(repo)).toEqual(["1/vocab é.txt", "config.json", "empty", "model.safetensors"]);
    expect(readFileSync(await getWeights()).equals(weights)).toBe(true);
    await expect(listHubFiles({ ...repo, name: "other" })).rejects.toThrow(
      /model other is not in the cache .*HF_HUB_OFFLINE is set/,
    );
    expect(hub.requests).toEqual([]);
  });

  test("falls back to the cache if the hub fails or is not reachable", async () => {
    await getAll();
    hub.faults.push({ status: 502 });
    expect(await getAll()).toBe(join(storage, "snapshots", commit));
    vi.stubEnv("HF_ENDPOINT", "http://127.0.0.1:9");
    expect(await getAll()).toBe(join(storage, "snapshots", commit));
    await expect(listHubFiles({ ...repo, name: "other" })).rejects.toThrow(
      /cannot download model other from http:.*Check the network/,
    );
  });
});

describe("access", () => {
  test.each<[string, () => Promise<unknown>, RegExp]>([
    [
      "rejects an unknown name",
      () => listHubFiles({ type: "model", name: "no/such" }),
      /access denied \(401\)\. The repository does not exist, or it is private or gated/,
    ],
    ["rejects an unknown revision", () => listHubFiles({ ...repo, revision: "v9" }), /model owner\/name@v9 .*\(404\)/],
    [
      "rejects a name that leaves the cache",
      () => listHubFiles({ type: "model", name: "../x" }),
      /expected a Hugging Face ID/,
    ],
    [
      "rejects a revision that leaves the cache",
      () => listHubFiles({ ...repo, revision: "a/../../../x" }),
      /expected a branch, tag or commit/,
    ],
  ])("%s", async (_, request, message) => {
    const response = request();
    await expect(response).rejects.toThrow(message);
    await expect(response).rejects.toBeInstanceOf(UserError);
  });

  test("rejects a server that returns paths outside the repository, or invalid commits", async () => {
    hub.repos.set("models/owner/name", { commit, files: { "../../../evil": Buffer.from("x") } });
    await expect(getAll()).rejects.toThrow(/file path inside a repository, received "..\/..\/..\/evil"/);
    hub.repos.set("models/owner/name", { commit: "not a commit", files });
    await expect(getAll()).rejects.toThrow(/returned no commit/);
  });

  test("rejects a missing or wrong token and accepts the right one", async () => {
    hub.repos.set("models/owner/name", { commit, files, token: "secret" });
    await expect(getAll()).rejects.toThrow(/set HF_TOKEN/);
    vi.stubEnv("HF_TOKEN", "wrong");
    await expect(getAll()).rejects.toThrow(/with this HF_TOKEN/);
    vi.stubEnv("HF_TOKEN", "secret");
    expect(readFileSync(join(await getAll(), "config.json"), "utf8")).toContain("bert");
  });

  test("does not send the token to other servers", async () => {
    const seen: (string | undefined)[] = [];
    const elsewhere = createServer((request, response) => {
      seen.push(request.headers.authorization);
      response.end(weights);
    });
    await new Promise<void>((resolve) => elsewhere.listen(0, "127.0.0.1", resolve));
    try {
      hub.repos.set("models/owner/name", { commit, files, token: "secret" });
      vi.stubEnv("HF_TOKEN", "secret");
      hub.faults.push({ redirectTo: `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/` });
      expect(readFileSync(await getWeights()).equals(weights)).toBe(true);
      expect(seen).toEqual([undefined]);
    } finally {
      elsewhere.closeAllConnections();
      elsewhere.close();
    }
  });

  test("rejects an invalid URL", async () => {
    vi.stubEnv("HF_ENDPOINT", "huggingface.co");
    await expect(getAll()).rejects.toThrow(/HF_ENDPOINT: expected a URL/);
  });
});

test("settings come from the same environment variables as in huggingface_hub", () => {
  expect(readHubSettings()).toEqual({ endpoint: hub.url, cache, token: null, offline: false });
  vi.stubEnv("HF_HUB_CACHE", "/elsewhere");
  vi.stubEnv("HF_HUB_OFFLINE", "TRUE");
  vi.stubEnv("HF_ENDPOINT", "");
  vi.stubEnv("HF_TOKEN", " t\n");
  expect(readHubSettings()).toEqual({
    endpoint: "https://huggingface.co",
    cache: "/elsewhere",
    token: "t",
    offline: true,
  });
  vi.stubEnv("HF_HUB_CACHE", "");
  vi.stubEnv("HF_HOME", "");
  vi.stubEnv("XDG_CACHE_HOME", "/caches");
  expect(readHubSettings().cache).toBe("/caches/huggingface/hub");
});

test("the token is not sent over http to another host", async () => {
  const sent: (string | null)[] = [];
  vi.stubGlobal("fetch", async (_: URL, init: RequestInit) => {
    sent.push(new Headers(init.headers).get("authorization"));
    return new Response("{}");
  });
  const settings = { cache, token: "secret", offline: false };
  for (const endpoint of ["http://mirror.example", "https://mirror.example", "http://127.0.0.1:80", "http://localhost"])
    await createHubFetch({ ...settings, endpoint })(`${endpoint}/api`);
  vi.unstubAllGlobals();
  expect(sent).toEqual([null, "Bearer secret", "Bearer secret", "Bearer secret"]);
});

test("a link planted in the place of a partial file is not followed", async () => {
  const target = join(cache, "victim.txt");
  mkdirSync(cache, { recursive: true });
  writeFileSync(target, "precious");
  mkdirSync(join(storage, "blobs"), { recursive: true });
  symlinkSync(target, `${blob}.temper.incomplete`);
  await getAll();
  expect(readFileSync(target, "utf8")).toBe("precious");
});
