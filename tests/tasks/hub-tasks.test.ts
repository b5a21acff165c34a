import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test, vi } from "vitest";
import { train } from "../../src/actions/train/train.js";
import { listen } from "../../src/base/events.js";
import { loadTask, type Task } from "../../src/tasks/index.js";
import { sha256, startFakeHub } from "../hub/fake-hub.js";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";
import { makeFolder } from "./folder.js";

/** Makes the next writes fail like on a full disk. A disk cannot be filled in a test. */
const disk = vi.hoisted(() => ({ bytesLeft: Number.POSITIVE_INFINITY }));
vi.mock("node:fs/promises", async (importOriginal) => {
  const original = await importOriginal<typeof import("node:fs/promises")>();
  const open: typeof original.open = async (...parameters) => {
    const file = await original.open(...parameters);
    const write = file.writeFile.bind(file);
    file.writeFile = async (data, ...rest) => {
      disk.bytesLeft -= (data as Uint8Array).length;
      if (disk.bytesLeft < 0) throw Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC" });
      return write(data, ...rest);
    };
    return file;
  };
  return { ...original, open };
});

const folder = temporaryFolder();
const hub = await startFakeHub();
afterAll(() => hub.close());

const commit = "c".repeat(40);
const fixture = (name: string): Buffer => readFileSync(`tests/fixtures/tasks/${name}.parquet`);
const part = "00000-of-00001.parquet";
const glueCard = Buffer.from("---\nlicense:\n- other\n---\n# GLUE\n");
const glue = {
  "README.md": glueCard,
  [`sst2/train-${part}`]: fixture("train"),
  [`sst2/validation-${part}`]: fixture("validation"),
  [`sst2/test-${part}`]: fixture("test"),
  ...Object.fromEntries(
    ["rte", "qnli", "qqp"].flatMap((name) =>
      ["train", "validation"].map((split) => [`${name}/${split}-${part}`, fixture(`hub/${name}`)]),
    ),
  ),
  ...Object.fromEntries(
    ["train", "validation_matched", "validation_mismatched"].map((split) => [
      `mnli/${split}-${part}`,
      fixture("hub/mnli"),
    ]),
  ),
};

beforeEach(() => {
  vi.unstubAllEnvs();
  for (const name of ["HF_TOKEN", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE"]) vi.stubEnv(name, "");
  vi.stubEnv("TEMPER_DATA", join(folder, "no-data"));
  vi.stubEnv("HF_HOME", join(folder, "home"));
  vi.stubEnv("HF_ENDPOINT", hub.url);
  rmSync(join(folder, "home"), { recursive: true, force: true });
  disk.bytesLeft = Number.POSITIVE_INFINITY;
  hub.requests.length = 0;
  hub.faults.length = 0;
  hub.repos.clear();
  hub.repos.set("datasets/nyu-mll/glue", { commit, files: glue });
  const plain = (name: string, splits: readonly string[]) =>
    Object.fromEntries(splits.map((split) => [`plain_text/${split}-${part}`, fixture(name)]));
  hub.repos.set("datasets/stanfordnlp/imdb", { commit, files: plain("hub/imdb", ["train", "test", "unsupervised"]) });
  hub.repos.set("datasets/stanfordnlp/snli", { commit, files: plain("hub/snli", ["train", "validation", "test"]) });
  hub.repos.set("datasets/AI-Secure/adv_glue", {
    commit,
    files: {
      [`adv_sst2/validation-${part}`]: fixture("validation"),
      [`adv_mnli_mismatched/validation-${part}`]: fixture("hub/mnli"),
    },
  });
  hub.repos.set("datasets/fancyzhx/ag_news", {
    commit,
    files: Object.fromEntries(["train", "test"].map((split) => [`data/${split}-${part}`, fixture("hub/ag-news")])),
  });
  hub.repos.set("datasets/cornell-movie-review-data/rotten_tomatoes", {
    commit,
    files: Object.fromEntries(
      ["train", "validation", "test"].map((split) => [`${split}.parquet`, fixture(`hub/mr-${split}`)]),
    ),
  });
});

const getFiles = (): string[] =>
  hub.requests
    .filter((request) => request.includes("/resolve/"))
    .map((request) => request.replace(/^.*resolve\/\w+\//, ""));
const loadAll = async (task: Task) =>
  Object.fromEntries(await Promise.all(task.splits.map(async (split) => [split, await task.load(split)] as const)));

describe("a named task that is not on disk", () => {
  test("is read from the hub, split by split, with one message about its license", async () => {
    const warnings: string[] = [];
    const progress: { readonly file: string; readonly received: number; readonly total: number }[] = [];
    const callbacks = listen({
      warning: ({ message }) => warnings.push(message),
      download: ({ type: _, ...state }) => progress.push(state),
    });
    const task = await loadTask({ task: "sst2", ...callbacks });
    expect(getFiles()).toEqual([]);
    expect(task).toMatchObject({ name: "sst2", labels: ["negative", "positive"], sourceNames: { test: "dev" } });
    expect(task.source).toMatchObject({ repository: "nyu-mll/glue", revision: commit });
    expect(await task.load("test")).toEqual([
      { id: "validation:1", texts: ["café fine"], label: 1 },
      { id: "validation:2", texts: ["dull 🎬"], label: 0 },
      { id: "validation:3", texts: ["so so"], label: 0 },
    ]);
    expect(getFiles()).toEqual(["README.md", `sst2/validation-${part}`]);
    expect((await task.load("train")).length + (await task.load("validation")).length).toBe(40);
    expect(warnings).toEqual([
      `sst2: downloading the dataset nyu-mll/glue (commit ${commit}). License: other; ` +
        `see ${hub.url}/datasets/nyu-mll/glue.`,
    ]);
    const { length } = fixture("train");
    expect(progress.at(-1)).toEqual({ file: `sst2/train-${part}`, received: length, total: length });

    hub.requests.length = 0;
    warnings.length = 0;
    await loadAll(await loadTask({ task: "sst2", ...callbacks }));
    expect(getFiles()).toEqual([]);
    expect(warnings).toEqual([]);
  });

  test.each([
    ["rte", [1, 0], ["first 0", "second 0"]],
    ["qnli", [1, 0], ["first 0", "second 0"]],
    ["qqp", [1, 0], ["first 0", "second 0"]],
    ["mnli", [1, 2, 0], ["first 0", "second 0"]],
    ["mnli-mm", [1, 2, 0], ["first 0", "second 0"]],
    ["advglue:sst2", [1, 0, 0], ["café fine"]],
    ["advglue:mnli-mm", [1, 2, 0], ["first 0", "second 0"]],
    ["imdb", [1, 0], ["Good. Really."]],
    ["snli", [0, 2, 1], ["first 0", "second 0"]],
    ["ag-news", [2, 0, 3, 1], ["title 0 news 0"]],
  ])("%s has the columns and the labels of its dataset", async (name, labels, texts) => {
    const examples = await (await loadTask({ task: name })).load("test");
    expect(examples.slice(0, labels.length).map(({ label }) => label)).toEqual(labels);
    expect(examples[0]!.texts).toEqual(texts);
  });

  test("mr has the IDs and the splits of the original files", async () => {
    const lines = (name: string): string => [0, 1, 2, 3].map((i) => `${name} sentence ${i}\n`).join("");
    const data = await makeFolder({ "rt-polarity.neg": lines("neg"), "rt-polarity.pos": lines("pos") });
    const original = await loadAll(await loadTask({ task: "mr", data }));
    expect(await loadAll(await loadTask({ task: "mr" }))).toEqual(original);
  });

  test("data on disk comes first, and a missing --data folder is not replaced", async () => {
    const data = await makeFolder({ "SST-2/train.tsv": "sentence\tlabel\nfine\t1\n" });
    vi.stubEnv("TEMPER_DATA", data);
    const task = await loadTask({ task: "sst2" });
    expect([task.source, hub.requests]).toEqual([undefined, []]);
    await expect(loadTask({ task: "rte", data })).rejects.toThrow(/rte: no train.tsv found in/);
  });

  test("rejects labels in another order", async () => {
    hub.repos.set("datasets/nyu-mll/glue", {
      commit,
      files: { ...glue, [`sst2/validation-${part}`]: fixture("hub/reordered") },
    });
    await expect((await loadTask({ task: "sst2" })).load("test")).rejects.toThrow(
      /expected the labels negative, positive, found positive, negative/,
    );
  });
});

describe("a revision", () => {
  test("can be pinned, and needs no data on disk", async () => {
    const pinned = await loadTask({ task: `sst2@${commit}` });
    hub.repos.get("datasets/nyu-mll/glue")!.commit = "d".repeat(40);
    expect(pinned.source?.revision).toBe(commit);
    expect((await loadTask({ task: "sst2" })).source?.revision).toBe("d".repeat(40));
    const data = await makeFolder({});
    await expect(loadTask({ task: `sst2@${commit}`, data })).rejects.toThrow(/Leave one of them out/);
    await expect(loadTask({ task: "sst2@v9" })).rejects.toThrow(/nyu-mll\/glue@v9 .*\(404\)/);
    await expect(loadTask({ task: "spam@v1" })).rejects.toThrow(/spam is not on the Hugging Face Hub/);
    await expect(loadTask({ task: "sts@v1" })).rejects.toThrow(/Unknown task "sts"/);
  });

  test("is recorded in the run", async () => {
    const config = { ...(await tinyRun(folder, { train: { epochs: 1 } })), task: "sst2", data: null } as const;
    const run = await train({ ...config, textColumn: [], labelColumn: null, out: join(folder, "run") });
    expect((await run.environment())?.data.source).toEqual({ repository: "nyu-mll/glue", revision: commit });
  });

  test("of an hf: dataset is recorded, too", async () => {
    const task = await loadTask({ task: "hf:glue/sst2" });
    expect(task.source).toMatchObject({ repository: "nyu-mll/glue", revision: commit });
    const files = (await task.source?.listFiles())?.map(({ path }) => path);
    expect(files).toEqual(["train", "validation", "test"].map((split) => `sst2/${split}-${part}`));
  });
});

describe("failures", () => {
  test("offline: cached splits are read, others are explained", async () => {
    await (await loadTask({ task: "sst2" })).load("test");
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    const task = await loadTask({ task: "sst2" });
    expect(await task.load("test")).toHaveLength(3);
    await expect(task.load("train")).rejects.toThrow(
      /split train of dataset nyu-mll\/glue is not in the cache .*HF_HUB_OFFLINE is set/,
    );
    await expect(loadTask({ task: "imdb" })).rejects.toThrow(
      /imdb: dataset stanfordnlp\/imdb is not in the cache .*HF_HUB_OFFLINE is set.*\nOr get the files yourself: Expected aclImdb/,
    );
  });

  test("a hub that fails, or that has no such file, is explained with the other way to get the data", async () => {
    hub.faults.push({ status: 500 });
    await expect(loadTask({ task: "snli" })).rejects.toThrow(
      /snli: cannot download dataset stanfordnlp\/snli from .*the server failed \(500\).*\nOr get .*snli_1.0_/,
    );
    hub.repos.set("datasets/stanfordnlp/snli", { commit, files: {} });
    await expect((await loadTask({ task: "snli" })).load("test")).rejects.toThrow(
      /The dataset stanfordnlp\/snli has no Parquet file of split test/,
    );
  });

  test("a full disk keeps what was downloaded, and the next call continues", async () => {
    const bytes = Buffer.concat([fixture("train"), Buffer.alloc(300_000)]);
    hub.repos.set("datasets/stanfordnlp/imdb", { commit, files: { [`plain_text/train-${part}`]: bytes } });
    const task = await loadTask({ task: "imdb" });
    disk.bytesLeft = 150_000;
    await expect(task.load("train")).rejects.toThrow(
      /cannot store \d+ bytes in .*: the disk is full; free some space and try again\. Downloaded data is kept\./,
    );
    const blobs = join(folder, "home", "hub", "datasets--stanfordnlp--imdb", "blobs");
    expect(readdirSync(blobs)).toEqual([`${sha256(bytes)}.temper.incomplete`]);
    disk.bytesLeft = Number.POSITIVE_INFINITY;
    hub.requests.length = 0;
    // The content is no table, but its download continues where it stopped.
    await expect((await loadTask({ task: "imdb" })).load("train")).rejects.toThrow(/Cannot read .* as Parquet/);
    expect(hub.requests.at(-1)).toMatch(/bytes=[1-9]\d+-$/);
    expect(readdirSync(blobs)).toEqual([sha256(bytes)]);
  });
});
