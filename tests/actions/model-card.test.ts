import { existsSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { beforeAll, expect, test, vi } from "vitest";
import { parse } from "yaml";
import { formatModelCard } from "../../src/actions/model-card.js";
import { Run } from "../../src/actions/run.js";
import { RunFolder } from "../../src/runs/run-folder.js";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { invoke } from "../cli/invoke.js";
import { sha256 } from "../hub/fake-hub.js";
import { expectClose, float64 } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
let victim: TinyVictim;

beforeAll(async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  victim = await tinyVictim(join(folder, "victim"), { tokenization: "word" });
});

interface CardMetric {
  readonly name: string;
  readonly value: number;
  readonly args: { readonly examples: number; readonly confidence_interval: readonly [number, number] };
}

function readCard() {
  const text = readFileSync(join(victim.run, "model", "README.md"), "utf8");
  const [, metadata, body] = /^---\n([\s\S]*?)\n---\n([\s\S]*)$/.exec(text)!;
  const parsed = parse(metadata!) as {
    tags: string[];
    "model-index": { results: { dataset: { split: string }; metrics: CardMetric[] }[] }[];
  };
  return { metadata: parsed, metrics: parsed["model-index"][0]!.results[0]!.metrics, body: body! };
}

test("training writes a card, and an attack adds its result with the interval", async () => {
  const trained = readCard();
  expect(trained.metrics.map(({ name }) => name)).toEqual(["Accuracy"]);
  expect(trained.body).toContain("It has not been attacked yet");
  const run = await Run.open(victim.run);
  const report = await run.attack("pwws", { numExamples: 10, threads: 1, device: "cpu" });
  const { metadata, metrics, body } = readCard();
  expect(metadata.tags).toContain("adversarial-robustness");
  const { accuracyUnderAttack, interval } = report.attacks.pwws!;
  const [, before, under] = metrics;
  expect(before).toMatchObject({ value: report.clean, args: { examples: report.examples } });
  expect(under).toMatchObject({ name: "Accuracy under pwws", args: { examples: report.examples } });
  const written = { ...float64, decimals: 4 };
  expectClose(under!.value, accuracyUnderAttack, written);
  expectClose(under!.args.confidence_interval[0], interval.low, written);
  expectClose(metrics[0]!.value, (await run.results())!.test.accuracy, written);
  expect(body).toMatch(/temper train --model .*--out /);
  expect(body).toMatch(/temper attack .*--attack pwws/);
  expect(body).not.toContain("not been attacked");
});

test("a label of data from elsewhere is no markup in the card", async () => {
  const run = await RunFolder.open(victim.run);
  const results = (await run.results())!;
  const test = { ...results.test, labels: ["<script>alert(1)</script>", "positive"] };
  const card = await formatModelCard(run, { ...results, test });
  expect(card).toContain("&lt;script&gt;");
  expect(card).not.toContain("<script>");
});

/** The calls of a hub that create a repository and store files, with LFS for safetensors. */
async function startHub(token: string) {
  const files = new Map<string, Buffer>();
  const objects = new Map<string, Buffer>();
  const repositories: { name: string; private?: boolean }[] = [];
  const answer = (request: IncomingMessage, response: ServerResponse, body: Buffer): ServerResponse => {
    const reply = (value: unknown, status = 200): ServerResponse =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    const path = decodeURIComponent(new URL(request.url!, url).pathname);
    if (request.method === "PUT") {
      objects.set(path.split("/").at(-1)!, body);
      return response.writeHead(200).end();
    }
    if (request.headers.authorization !== `Bearer ${token}`) return reply({ error: "Invalid token" }, 401);
    if (path === "/api/repos/create") {
      repositories.push(JSON.parse(body.toString()));
      return reply({ url: `${url}/me/model`, name: "me/model" });
    }
    if (path.endsWith("/preupload/main")) {
      const { files: asked } = JSON.parse(body.toString()) as { files: { path: string }[] };
      const modes = asked.map((file) => ({
        path: file.path,
        uploadMode: file.path.endsWith(".safetensors") ? "lfs" : "regular",
        shouldIgnore: false,
      }));
      return reply({ files: modes });
    }
    if (path.endsWith("/info/lfs/objects/batch")) {
      const { objects: asked } = JSON.parse(body.toString()) as { objects: { oid: string; size: number }[] };
      const actions = (oid: string) => ({ upload: { href: `${url}/storage/${oid}`, header: {} } });
      return reply({
        transfer: "basic",
        objects: asked.map(({ oid, size }) => ({ oid, size, actions: actions(oid) })),
      });
    }
    if (path.endsWith("/commit/main")) {
      for (const line of body.toString().trim().split("\n")) {
        const { key, value } = JSON.parse(line) as { key: string; value: Record<string, string> };
        if (key === "file") files.set(value.path!, Buffer.from(value.content!, "base64"));
        if (key === "lfsFile") files.set(value.path!, objects.get(value.oid!)!);
      }
      return reply({ success: true, commitOid: "c0ffee", commitUrl: `${url}/me/model/commit/c0ffee`, hookOutput: "" });
    }
    return reply({ error: `no ${path}` }, 404);
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => answer(request, response, Buffer.concat(chunks)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, files, repositories, close: () => new Promise((resolve) => server.close(resolve)) };
}

test("push uploads every file of the model with its card, private by default", async () => {
  const hub = await startHub("secret");
  vi.stubEnv("HF_ENDPOINT", hub.url);
  vi.stubEnv("HF_HUB_OFFLINE", "");
  const dry = await invoke(["push", victim.run, "me/model", "--dry-run"]);
  expect(dry).toMatchObject({ code: 0, stdout: expect.stringContaining("Dry run: nothing was uploaded") });
  const anonymous = await invoke(["push", victim.run, "me/model"]);
  expect(anonymous).toMatchObject({ code: 2, stderr: expect.stringContaining("HF_TOKEN is not set") });
  vi.stubEnv("HF_TOKEN", "wrong");
  const denied = await invoke(["push", victim.run, "me/model"]);
  expect(denied).toMatchObject({ code: 2, stderr: expect.stringContaining("access denied (401)") });
  expect(hub.repositories).toEqual([]);
  vi.stubEnv("HF_TOKEN", "secret");
  const pushed = await invoke(["push", victim.run, "me/model"]);
  expect(pushed).toMatchObject({ code: 0, stdout: expect.stringContaining("commit c0ffee") });
  expect(hub.repositories).toMatchObject([{ name: "model", visibility: "private" }]);
  for (const name of ["README.md", "config.json", "model.safetensors", "tokenizer.json"]) {
    const local = readFileSync(join(victim.run, "model", name));
    expect(sha256(hub.files.get(name)!), name).toBe(sha256(local));
  }
  await hub.close();
});

test("push rejects a run that has not finished and a name without an owner", async () => {
  const name = await invoke(["push", victim.run, "model"]);
  expect(name).toMatchObject({ code: 2, stderr: expect.stringContaining("expected OWNER/NAME") });
  const missing = await invoke(["push", join(folder, "none"), "me/model"]);
  expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining("is not a run") });
  expect(existsSync(join(folder, "none"))).toBe(false);
});
