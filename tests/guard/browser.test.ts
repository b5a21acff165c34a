import { cpSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type GuardAnswer, loadGuard } from "../../src/guard/index.js";
import { launchBrowser, serveFolder } from "../browser.js";
import { expectClose } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
const built = join(folder, "dist");
const model = join(folder, "model");
const calibration = { threshold: 0.45, fpr: 0.01, examples: 500, positiveLabel: "positive", windows: 3 };
const tags = [..."ignore this"].map((each) => String.fromCodePoint(0xe0000 + each.charCodeAt(0))).join("");
const texts = ["the film was joy", "it was dull and slow", "a joy of a film, and a slow one ?", "", `nice day${tags}`];
let server: Awaited<ReturnType<typeof serveFolder>>;
let browser: Browser;
let page: Page;

/** The page is also its own worker. */
const source = `
  import * as runtime from "onnxruntime-web/wasm";
  import { loadGuard } from ${JSON.stringify(fileURLToPath(new URL("../../dist/guard/web.js", import.meta.url)))};
  runtime.env.wasm.numThreads = 1;
  const check = async ([folder, texts]) => {
    const guard = await loadGuard(folder, { runtime });
    const answers = await guard.checkAll(texts);
    guard.close();
    return answers;
  };
  if (typeof document === "undefined") onmessage = async ({ data }) => postMessage(await check(data));
  else {
    globalThis.checkInPage = check;
    globalThis.checkInWorker = (request) =>
      new Promise((resolve, reject) => {
        const worker = new Worker(import.meta.url, { type: "module" });
        worker.onmessage = ({ data }) => resolve(data);
        worker.onerror = ({ message }) => reject(new Error(message));
        worker.postMessage(request);
      });
    document.body.textContent = "ready";
  }`;

beforeAll(async () => {
  cpSync(fileURLToPath(new URL("../fixtures/onnx-tiny", import.meta.url)), model, { recursive: true });
  writeFileSync(join(model, "calibration.json"), JSON.stringify(calibration));
  writeFileSync(join(folder, "page.js"), source);
  writeFileSync(join(folder, "index.html"), '<body><script type="module" src="./page.js"></script></body>');
  symlinkSync(fileURLToPath(new URL("../../node_modules", import.meta.url)), join(folder, "node_modules"));
  const { build } = await import("vite");
  // Nothing of Node.js is replaced: this is what a bundler of users does.
  const options = { outDir: built, target: "es2022", modulePreload: false } as const;
  await build({ root: folder, configFile: false, logLevel: "error", build: options });
  cpSync(model, join(built, "model"), { recursive: true });
  server = await serveFolder(built);
  browser = await launchBrowser();
  page = await browser.newPage();
  await page.goto(server.origin);
  await page.getByText("ready").waitFor();
});
afterAll(async () => {
  await browser?.close();
  server?.close();
});

test.each(["checkInPage", "checkInWorker"] as const)("a guard answers in a browser as in Node.js: %s", async (name) => {
  const guard = await loadGuard(model);
  const expected = await guard.checkAll(texts);
  guard.close();
  const folderUrl = new URL("model", page.url()).href;
  const found = await page.evaluate(
    ([check, ...request]) =>
      (globalThis as never as Record<string, (request: unknown) => GuardAnswer[]>)[check]!(request),
    [name, folderUrl, texts] as const,
  );
  expectClose(
    found.map(({ score }) => score),
    expected.map(({ score }) => score),
    { terms: 400 },
  );
  const omitScore = ({ score: _, ...answer }: GuardAnswer) => answer;
  expect(found.map(omitScore)).toEqual(expected.map(omitScore));
  expect(new Set(found.map(({ flagged }) => flagged)).size).toBe(2);
});
