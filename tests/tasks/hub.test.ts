import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { matchesGlob, parseDatasetReference } from "../../src/tasks/hub.js";
import { loadTask } from "../../src/tasks/index.js";
import { temporaryFolder } from "../temporary.js";

const commit = "0123456789abcdef0123456789abcdef01234567";
const fixture = (name: string) => readFileSync(`tests/fixtures/tasks/${name}.parquet`);
const card = `---
configs:
- config_name: sst2
  data_files:
  - split: train
    path: sst2/train-*
  - split: validation
    path: sst2/validation-*
- config_name: plain
  data_files:
  - split: train
    path: plain/train-*
dataset_info:
- config_name: plain
  features:
  - name: label
    dtype:
      class_label:
        names:
          '0': dull
          '1': fine
---
# A dataset
`;

/** The datasets of a fake Hub: path -> content. */
const repos: Record<string, Record<string, Buffer>> = {
  "nyu-mll/glue": {
    "README.md": Buffer.from(card),
    "sst2/train-00000-of-00001.parquet": fixture("train"),
    "sst2/validation-00000-of-00001.parquet": fixture("validation"),
    "plain/train-00000-of-00001.parquet": fixture("plain"),
  },
  "someone/bare": {
    "data/train-00000-of-00001.parquet": fixture("train"),
    "data/test-00000-of-00001.parquet": fixture("validation"),
  },
  "someone/lines": { "train.jsonl": Buffer.from("{}") },
};

/** Implements the part of the Hub's protocol that is used: repository, file list, files. */
function answer(url: string, body: string): Buffer | object | undefined {
  const match = /^\/(?:api\/)?datasets\/([\w.-]+\/[\w.-]+)(\/.*)?$/.exec(url.split("?")[0]!);
  const name = match?.[1] ?? "";
  const files = repos[name];
  if (files === undefined) return undefined;
  const rest = match![2] ?? "";
  const entry = (path: string) => {
    const content = files[path]!;
    const oid = createHash("sha1").update(`blob ${content.length}\0`).update(content).digest("hex");
    return { type: "file", path, size: content.length, oid };
  };
  if (rest.startsWith("/tree/")) return Object.keys(files).map(entry);
  if (rest.startsWith("/paths-info/"))
    return (JSON.parse(body) as { paths: string[] }).paths.filter((path) => path in files).map(entry);
  if (rest.startsWith("/resolve/")) return files[decodeURIComponent(rest.split("/").slice(3).join("/"))];
  return {
    _id: "1",
    id: name,
    sha: commit,
    private: false,
    gated: false,
    downloads: 0,
    likes: 0,
    lastModified: "2024-01-01T00:00:00.000Z",
  };
}

describe("parseDatasetReference", () => {
  it("reads owner, name, revision and configuration", () => {
    expect(parseDatasetReference("hf:glue/sst2")).toEqual({
      repo: { type: "dataset", name: "nyu-mll/glue" },
      config: "sst2",
    });
    expect(parseDatasetReference("hf:someone/set")).toEqual({
      repo: { type: "dataset", name: "someone/set" },
      config: undefined,
    });
    expect(parseDatasetReference("hf:someone/set@v2/part")).toEqual({
      repo: { type: "dataset", name: "someone/set", revision: "v2" },
      config: "part",
    });
    expect(() => parseDatasetReference("hf:alone")).toThrow(/expected hf:OWNER\/NAME/);
  });
});

describe("loadHubTask", () => {
  const cache = temporaryFolder();
  let server: Server;

  beforeAll(async () => {
    server = createServer((request, response) => {
      let body = "";
      request.on("data", (chunk) => {
        body += String(chunk);
      });
      request.on("end", () => {
        const result = answer(request.url!, body);
        if (result === undefined) response.writeHead(404, { "x-error-code": "RepoNotFound" }).end();
        else if (Buffer.isBuffer(result)) response.writeHead(200, { "content-length": result.length }).end(result);
        else response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(result));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  });
  beforeEach(() => {
    vi.stubEnv("HF_ENDPOINT", `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    vi.stubEnv("HF_HUB_CACHE", cache);
    vi.stubEnv("HF_HUB_OFFLINE", "");
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    await new Promise((resolve) => server.close(resolve));
  });

  it("reads Parquet files with their class names", async () => {
    const task = await loadTask({ task: "hf:glue/sst2" });
    expect(task).toMatchObject({
      name: "hf:nyu-mll/glue/sst2",
      labels: ["negative", "positive"],
      splits: ["train", "validation", "test"],
    });
    expect(task.sourceNames).toEqual({ test: "validation" });
    expect((await task.load("train")).length + (await task.load("validation")).length).toBe(40);
    expect((await task.load("test"))[0]).toEqual({
      id: "validation-00000-of-00001.parquet:1",
      texts: ["café fine"],
      label: 1,
    });
  });

  it("uses the class names of the dataset card if the files have none", async () => {
    const task = await loadTask({ task: "hf:nyu-mll/glue/plain", skipBadRows: true });
    expect(task).toMatchObject({ labels: ["dull", "fine"], splits: ["train", "validation", "test"] });
    expect((await task.load("train")).map((example) => example.label)).toContain(1);
  });

  it("reads a dataset without a card", async () => {
    const task = await loadTask({ data: "hf:someone/bare" });
    expect(task).toMatchObject({ name: "hf:someone/bare", splits: ["train", "validation", "test"] });
    expect(task.sourceNames).toEqual({});
    expect(await task.load("test")).toHaveLength(3);
  });

  it("explains what is wrong with a reference", async () => {
    await expect(loadTask({ task: "hf:glue" })).rejects.toThrow(
      /has several configurations\. Use one of hf:glue\/sst2, hf:glue\/plain/,
    );
    await expect(loadTask({ task: "hf:glue/sst" })).rejects.toThrow(/no configuration "sst" \(did you mean "sst2"\?\)/);
    await expect(loadTask({ task: "hf:someone/lines" })).rejects.toThrow(/has no Parquet files/);
    await expect(loadTask({ task: "hf:someone/nothing" })).rejects.toThrow(
      expect.objectContaining({ name: "UserError" }),
    );
  });
});

it("patterns of data files are matched without backtracking", () => {
  const cases: [string, string, boolean][] = [
    ["data/train-0.parquet", "data/train-*", true],
    ["data/train-0.parquet", "**/*.parquet", true],
    ["data/train-0.parquet", "data/train-0.parquet", true],
    ["data/train-0.parquet", "data/test-*", false],
    ["ab", "ab*b", false],
    ["abcb", "ab*b", true],
    ["a.b", "a?b", false],
  ];
  for (const [path, pattern, expected] of cases)
    expect([path, pattern, matchesGlob(path, pattern)]).toEqual([path, pattern, expected]);
  // A matcher that backtracks would not end.
  expect(matchesGlob(`${"a".repeat(10_000)}b`, `${"*a".repeat(2000)}*c`)).toBe(false);
});
