import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { Hono } from "hono";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createHandler, createMiddleware, traceGuard } from "../../examples/guard.js";
import { loadClassifier } from "../../src/actions/predict/text-classifier.js";
import { type LoadedGuard, loadGuard } from "../../src/guard/index.js";
import { loadGuard as loadWebGuard } from "../../src/guard/web.js";
import { findOnnxRuntime } from "../../src/onnx/find-onnx-runtime.js";
import { temporaryFolder } from "../temporary.js";

const fixture = fileURLToPath(new URL("../fixtures/onnx-tiny", import.meta.url));
const folder = join(temporaryFolder(), "guard");
const calibration = { threshold: 0.45, fpr: 0.01, examples: 500, positiveLabel: "positive", windows: 3 };
const texts = ["the film was joy", "it was dull and slow", "a joy of a film, and a slow one, was it dull ?", "", "😊"];
let guard: LoadedGuard;

beforeAll(async () => {
  cpSync(fixture, folder, { recursive: true });
  writeFileSync(join(folder, "calibration.json"), JSON.stringify(calibration));
  guard = await loadGuard(folder);
});
afterAll(() => guard.close());

/** The runtime that the web version is given. */
function findRuntime() {
  const found = findOnnxRuntime();
  if ("problem" in found) throw new Error(found.problem);
  return found.runtime;
}

describe("a loaded guard", () => {
  test("answers as the classifier of the library does, with windows and threshold", async () => {
    await using classifier = await loadClassifier(folder, { threads: 1, windows: 3, positiveLabel: "positive" });
    const expected = await classifier.classify(texts);
    const found = await guard.checkAll(texts);
    for (const [i, { flagged, certified, truncated }] of found.entries()) {
      const { certified: edits, ...answer } = expected[i]!;
      expect({ flagged, truncated }).toEqual({ flagged: answer.flagged, truncated: answer.truncated });
      expect(certified).toBe(edits!.edits === null);
    }
    await using complete = await loadClassifier(folder, { threads: 1 });
    const same = await loadGuard(folder, { windows: null, threshold: 0.45 });
    // One text at a time has the same batches in both.
    for (const text of texts) {
      const [answer] = await complete.classify([text]);
      expect((await same.check(text)).score).toBe(answer!.probabilities.positive);
    }
    same.close();
    expect(found.map(({ threshold }) => threshold)).toEqual(texts.map(() => 0.45));
    expect(found.map(({ flagged }) => flagged)).toEqual(found.map(({ score }) => score > 0.45));
    expect(new Set(found.map(({ flagged }) => flagged)).size).toBe(2);
    expect(found[3]).toEqual({
      ...{ flagged: false, score: 0, threshold: 0.45, certified: false, hidden: null, truncated: false },
    });
  });

  test("what is certified stays flagged, whatever comes before and after", async () => {
    const found = await guard.checkAll(texts);
    const certified = texts.filter((_, i) => found[i]!.certified);
    expect(certified.length).toBeGreaterThan(0);
    for (const text of certified)
      expect(await guard.check(`it was dull . ${text} slow slow slow`)).toMatchObject({ flagged: true });
    const complete = await loadGuard(folder, { windows: null, threshold: 0.45 });
    expect((await complete.checkAll(texts)).some((answer) => answer.certified)).toBe(false);
    complete.close();
  });

  test("an 8-bit guard certifies, too: no other text moves the score of a window", async () => {
    const ask = async (given: readonly string[]) => {
      // A guard remembers the scores of windows.
      const quantized = await loadGuard(folder, { quantized: true });
      const answers = await quantized.checkAll(given);
      quantized.close();
      return answers;
    };
    const alone = await ask(texts);
    const longer = await ask(texts.map((text) => `slow . ${text} it was dull and slow`));
    for (const [i, { score, certified }] of alone.entries()) {
      expect(longer[i]!.score).toBeGreaterThanOrEqual(score);
      if (certified) expect(longer[i]!.flagged).toBe(true);
    }
    expect(alone.filter(({ certified }) => certified).length).toBeGreaterThan(0);
  });

  test("says what is hidden and what is truncated", async () => {
    const tags = [..."ignore this"].map((each) => String.fromCodePoint(0xe0000 + each.charCodeAt(0))).join("");
    expect(await guard.check(`nice day${tags}`)).toMatchObject({ hidden: { kind: "tags", text: "ignore this" } });
    const complete = await loadGuard(folder, { windows: null, threshold: 0.5 });
    expect(await complete.check("joy ".repeat(40))).toMatchObject({ truncated: true });
    expect(await complete.check("joy")).toMatchObject({ truncated: false, hidden: null });
    complete.close();
  });

  test("a canonical model reads canonical forms", async () => {
    const canonical = `${folder}-canonical`;
    cpSync(folder, canonical, { recursive: true });
    const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8"));
    config.temper.normalize = "canonical";
    writeFileSync(join(canonical, "config.json"), JSON.stringify(config));
    const options = { windows: null, threshold: 0.45 };
    const [other, same] = [await loadGuard(canonical, options), await loadGuard(folder, options)];
    const { score } = await other.check("the film was joy");
    expect(await other.check("the fіlm w\u200bas ｊｏｙ")).toMatchObject({ score });
    expect(await same.check("the fіlm w\u200bas ｊｏｙ")).not.toMatchObject({ score });
    other.close();
    same.close();
  });

  test("works in a worker thread", async () => {
    const code = `const { parentPort, workerData } = require("node:worker_threads");
      import(workerData.module).then(async ({ loadGuard }) => {
        const guard = await loadGuard(workerData.folder);
        parentPort.postMessage(await guard.check("the film was joy"));
        guard.close();
      });`;
    const module = new URL("../../dist/guard/index.js", import.meta.url).href;
    const worker = new Worker(code, { eval: true, workerData: { module, folder } });
    const answer = await new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject));
    expect(answer).toEqual(await guard.check("the film was joy"));
    await worker.terminate();
  });
});

describe("bad input of a guard", () => {
  test.each([
    ["a folder without a model", () => loadGuard(join(folder, "onnx")), /Expected config\.json.*temper export/],
    ["a label that the model lacks", () => loadGuard(folder, { positiveLabel: "spam" }), /negative, positive.*"spam"/],
    ["windows of another calibration", () => loadGuard(folder, { windows: 8 }), /calibrated for windows 3/],
    ["no runtime in a browser", () => loadWebGuard("/model"), /onnxruntime-web/],
    ["a text that is none", () => guard.check(7 as never), /expected a text/],
  ])("%s", async (_name, load, message) => {
    await expect(load()).rejects.toThrow(message);
  });

  test("a model that votes, whose parts alone would be another model", async () => {
    const read = async (path: string) => {
      const bytes = readFileSync(join(folder, path));
      const text = bytes.toString().replace('"temper": {', '"temper": { "votes": true,');
      return path === "config.json" ? Buffer.from(text) : bytes;
    };
    await expect(loadGuard(read)).rejects.toThrow("temper serve");
  });
});

describe("the guard of browsers and workers", () => {
  test("fetches the folder and answers alike", async () => {
    const server = createServer(({ url }, response) => {
      if (url === "/broken/config.json" || url === "/broken/calibration.json")
        return void response.writeHead(500).end();
      try {
        response.end(readFileSync(join(folder, url!.replace(/^\/model/, ""))));
      } catch {
        response.writeHead(404).end();
      }
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const runtime = findRuntime();
    const web = await loadWebGuard(`${origin}/model/`, { runtime });
    expect(await web.checkAll(texts)).toEqual(await guard.checkAll(texts));
    web.close();
    await expect(loadWebGuard(`${origin}/broken`, { runtime })).rejects.toThrow("received 500");
    server.close();
  });
});

describe("examples/guard.ts", () => {
  const flagged = "the film was joy";
  const passed = "dull";

  test("the Fetch handler refuses what is flagged, also in Hono", async () => {
    const handle = createHandler(guard, async (text) => text.toUpperCase());
    const app = new Hono().post("/chat", (context) => handle(context.req.raw));
    expect((await app.request("/chat", { method: "POST", body: flagged })).status).toBe(422);
    const answer = await app.request("/chat", { method: "POST", body: passed });
    expect([answer.status, await answer.text()]).toEqual([200, "DULL"]);
  });

  test("the middleware of the AI SDK checks the last message", async () => {
    const { transformParams } = createMiddleware(guard);
    const ask = (content: unknown) => ({ params: { prompt: [{ role: "user", content }] } });
    await expect(transformParams(ask([{ type: "text", text: flagged }]))).rejects.toThrow("refused");
    const fine = ask([{ type: "text", text: passed }]);
    expect(await transformParams(fine)).toBe(fine.params);
  });

  test("a span has the decision and ends, also after an error", async () => {
    const spans: [string, object][] = [];
    let ended = 0;
    const startSpan = (name: string) => ({
      setAttributes: (attributes: object) => void spans.push([name, attributes]),
      end: () => void ended++,
    });
    const traced = traceGuard(guard, { startSpan });
    await traced.check(flagged);
    await expect(traced.check(7 as never)).rejects.toThrow("expected a text");
    expect(spans).toEqual([
      ["apply_guardrail llm_input", expect.objectContaining({ "gen_ai.security.decision.type": "deny" })],
    ]);
    expect(ended).toBe(2);
  });
});
