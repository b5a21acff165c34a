import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeEach, expect, test, vi } from "vitest";
import { invoke } from "../cli/invoke.js";
import { startFakeHub } from "../hub/fake-hub.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
const hub = await startFakeHub();
afterAll(() => hub.close());
const commit = "e".repeat(40);
const table = readFileSync("tests/fixtures/tasks/hub/imdb.parquet");

beforeEach(() => {
  for (const name of ["HF_TOKEN", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE"]) vi.stubEnv(name, "");
  vi.stubEnv("TEMPER_DATA", join(folder, "data"));
  vi.stubEnv("HF_HOME", join(folder, "home"));
  vi.stubEnv("HF_ENDPOINT", hub.url);
  hub.repos.set("datasets/stanfordnlp/imdb", {
    commit,
    files: Object.fromEntries(
      ["train", "test", "unsupervised"].map((split) => [`plain_text/${split}-00000-of-00001.parquet`, table]),
    ),
  });
  const weights = Buffer.alloc(3000);
  const files = { "config.json": Buffer.from("{}"), "model.safetensors": weights, "pytorch_model.bin": weights };
  for (const model of ["google-bert/bert-base-uncased", "FacebookAI/roberta-base"])
    hub.repos.set(`models/${model}`, { commit, files });
});

test("a dry run names downloads with sizes, and missing files with the commands that build them", async () => {
  const { code, stdout } = await invoke(["sweep", "experiments/rift-table-1.yaml", "--dry-run"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/model google-bert\/bert-base-uncased: 3\.0 kB/);
  expect(stdout).toMatch(/model FacebookAI\/roberta-base: 3\.0 kB/);
  expect(stdout).toMatch(/dataset of imdb: [\d.]+ kB/);
  const path = join(folder, "data", "substitutions");
  expect(stdout).toContain(
    `temper substitutions build --vectors counter-fitted-vectors.txt --out ${join(path, "counterfitted_neighbors.json")}`,
  );
  expect(stdout).toContain(`--out ${join(path, "imdb_test.lm.json")}\n    from the language-model scores released by`);
  expect(stdout).toContain("Time and GPU-hours are measured when all of this is there.");
  expect(hub.requests.filter((request) => request.includes("/resolve/"))).toEqual([]);

  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "counterfitted_neighbors.json"), "{}");
  const json = await invoke(["sweep", "experiments/rift-table-1.yaml", "--dry-run", "--json"]);
  const { inputs, estimate } = JSON.parse(json.stdout);
  expect(estimate).toBeNull();
  expect(inputs.downloads).toContainEqual({ name: "dataset of imdb", bytes: 2 * table.length, problem: null });
  expect(inputs.files.map((file: { isThere: boolean }) => file.isThere)).toEqual([true, false]);
});

test("a hub that does not answer leaves the sizes unknown", async () => {
  vi.stubEnv("HF_HUB_OFFLINE", "1");
  const { code, stdout } = await invoke(["sweep", "experiments/rift-table-1.yaml", "--dry-run"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/dataset of imdb: unknown size\. dataset stanfordnlp\/imdb is not in the cache/);
});
