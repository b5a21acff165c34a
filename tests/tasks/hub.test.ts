import { readFileSync } from "node:fs";
import { afterAll, beforeEach, describe, expect, it, vi } from "vitest";
import { matchesGlob, parseDatasetReference } from "../../src/tasks/hub.js";
import { loadTask } from "../../src/tasks/index.js";
import { startFakeHub } from "../hub/fake-hub.js";
import { temporaryFolder } from "../temporary.js";

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

const commit = "0123456789abcdef0123456789abcdef01234567";
const hub = await startFakeHub();
afterAll(() => hub.close());
hub.repos.set("datasets/nyu-mll/glue", {
  commit,
  files: {
    "README.md": Buffer.from(card),
    "sst2/train-00000-of-00001.parquet": fixture("train"),
    "sst2/validation-00000-of-00001.parquet": fixture("validation"),
    "plain/train-00000-of-00001.parquet": fixture("plain"),
  },
});
hub.repos.set("datasets/someone/bare", {
  commit,
  files: {
    "data/train-00000-of-00001.parquet": fixture("train"),
    "data/test-00000-of-00001.parquet": fixture("validation"),
  },
});
hub.repos.set("datasets/someone/lines", { commit, files: { "train.jsonl": Buffer.from("{}") } });

describe("parseDatasetReference", () => {
  it("reads owner, name, revision and configuration", () => {
    for (const [text, name, revision, config] of [
      ["hf:glue/sst2", "nyu-mll/glue", undefined, "sst2"],
      ["hf:someone/set", "someone/set", undefined, undefined],
      ["hf:someone/set@v2/part", "someone/set", "v2", "part"],
    ] as const)
      expect(parseDatasetReference(text)).toEqual({ name, revision, config });
    expect(() => parseDatasetReference("hf:alone")).toThrow(/expected hf:OWNER\/NAME/);
  });
});

describe("loadHubTask", () => {
  const cache = temporaryFolder();
  beforeEach(() => {
    vi.stubEnv("HF_ENDPOINT", hub.url);
    vi.stubEnv("HF_HUB_CACHE", cache);
    vi.stubEnv("HF_HUB_OFFLINE", "");
  });
  afterAll(() => vi.unstubAllEnvs());

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
