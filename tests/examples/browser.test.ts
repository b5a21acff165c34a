import { cpSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTextAttacker } from "../../src/actions/attack/attack-text.js";
import { loadClassifier } from "../../src/actions/predict/text-classifier.js";
import { launchBrowser, serveFolder } from "../browser.js";
import { temporaryFolder } from "../temporary.js";

const fixture = fileURLToPath(new URL("../fixtures/onnx-tiny", import.meta.url));
const built = join(temporaryFolder(), "page");
let server: Awaited<ReturnType<typeof serveFolder>>;
let browser: Browser;
let page: Page;
const problems: string[] = [];

beforeAll(async () => {
  const { build } = await import("vite");
  const configFile = fileURLToPath(new URL("../../examples/browser/vite.config.mjs", import.meta.url));
  await build({ configFile, build: { outDir: built } });
  cpSync(fixture, join(built, "model"), { recursive: true });
  server = await serveFolder(built);
  const { origin } = server;
  browser = await launchBrowser();
  page = await browser.newPage();
  // Offline: the page reaches nothing but its own files.
  await page.route("**", (route) => (route.request().url().startsWith(origin) ? route.continue() : route.abort()));
  page.on("requestfailed", (request) => problems.push(request.url()));
  page.on("pageerror", (error) => problems.push(error.message));
  await page.goto(origin);
  await page.getByText("Ready: negative, positive").waitFor();
});
afterAll(async () => {
  await browser?.close();
  server?.close();
});

test("the page classifies while one types, as the library does", async () => {
  await using classifier = await loadClassifier(fixture, { threads: 1 });
  for (const text of ["the film was joy", "it was dull and slow"]) {
    await page.getByLabel("Text").fill(text);
    const [prediction] = await classifier.classify([text]);
    for (const [label, value] of Object.entries(prediction!.probabilities))
      await page.getByText(`${label} ${(100 * value).toFixed(1)}%`).waitFor();
  }
});

test.each(["greedy", "deepwordbug"])("%s finds the adversarial text that the library finds", async (name) => {
  // Only one word decides. The effect of the others is in the last bits of the scores, which differ between CPUs.
  const text = "it was joy";
  await page.getByLabel("Text").fill(text);
  await page.locator("select[name=name]").selectOption(name);
  await page.getByRole("button", { name: "Attack the text" }).click();
  const result = page.locator("#result[data-outcome]");
  await page.getByText("Fooled after").waitFor();
  const request = { model: fixture, substitutions: join(fixture, "table.json"), threads: 1 };
  const attacker = await createTextAttacker({ ...request, attacks: [{ name }], minContextSimilarity: -1 });
  const [expected] = await attacker.attack([text]);
  attacker.close();
  expect(expected!.result.outcome).toBe("success");
  expect(await result.getAttribute("data-text")).toBe(expected!.result.finalTexts[0]);
  expect(await result.getAttribute("data-queries")).toBe(String(expected!.result.queries));
  await result.evaluate((element) => element.removeAttribute("data-outcome"));
});

test("the page needs nothing from elsewhere", () => expect(problems).toEqual([]));
