// `make studio-pictures RUNS=runs/demo`: pictures of all pages as docs/pictures/studio-*.png, wide in the light theme and of
// a phone in the dark one. The folder needs a run that was trained and attacked; the playground uses its first two models.
import { readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import packed from "@sparticuz/chromium";
import { chromium } from "playwright-core";
import { startStudio } from "../dist/studio/studio.js";

const email =
  "Your HGH Request! As seen on NBC, CBS, and CNN, and even Oprah! The health discovery that actually reverses aging " +
  "while burning fat,";
const [runs = "runs/demo", text = email] = process.argv.slice(2);
const docs = resolve(import.meta.dirname, "../docs/pictures");
const studio = await startStudio({ folders: [runs] });
const names = readdirSync(runs, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && !entry.name.startsWith("."))
  .map(({ name }) => name);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? (await packed.executablePath()),
  args: ["--no-sandbox", "--disable-gpu"],
});

const [first = "", second = first] = names;
const models = [second, first].map((name) => ({ name, runs: [`0/${name}`] }));
/** @type {Record<string, { hash: string, prepare?: (page: import("playwright-core").Page) => Promise<unknown> }>} */
const views = {
  runs: { hash: "#/runs", prepare: (page) => page.locator("td.name").first().waitFor() },
  run: {
    hash: `#/run?${new URLSearchParams({ id: `0/${first}` })}`,
    prepare: (page) => page.locator(".card").first().waitFor(),
  },
  compare: {
    hash: `#/compare?${new URLSearchParams({ models: JSON.stringify(models) })}`,
    prepare: (page) => page.locator("svg.accuracy").first().waitFor(),
  },
  jobs: { hash: "#/jobs?form=harden", prepare: (page) => page.locator(".fields").first().waitFor() },
  rate: {
    hash: "#/rate",
    prepare: async (page) => {
      await page.getByLabel("Your name").fill("Ada");
      await page.getByText("pairs left").waitFor();
    },
  },
  playground: {
    hash: `#/playground?${new URLSearchParams({ first: `0/${second}` })}`,
    prepare: async (page) => {
      if (second !== first) await page.getByLabel("Second model").selectOption({ label: first });
      await page.getByLabel("Text", { exact: true }).fill(text);
      await page.locator(".word").first().waitFor({ timeout: 120_000 });
      await page.getByRole("button", { name: "Start attack" }).click();
      await page.getByRole("button", { name: "Copy as a test case" }).first().waitFor({ timeout: 120_000 });
      await page.getByRole("button", { name: "Start attack" }).waitFor({ timeout: 120_000 });
    },
  },
};
// Two of the four combinations show both sizes and both themes.
const looks = /** @type {const} */ ([
  ["wide", { width: 1180, height: 800 }, "light"],
  ["phone", { width: 390, height: 844 }, "dark"],
]);
for (const [size, viewport, colorScheme] of looks) {
  const context = await browser.newContext({ viewport, colorScheme, locale: "en-US", reducedMotion: "reduce" });
  for (const [name, { hash, prepare }] of Object.entries(views)) {
    const page = await context.newPage();
    await page.goto(`${studio.url}${hash}`);
    await page.locator("h1").waitFor({ state: "attached" });
    await prepare?.(page);
    await page.waitForTimeout(1000);
    await page.screenshot({ path: join(docs, `studio-${name}-${size}-${colorScheme}.png`) });
    await page.close();
  }
  await context.close();
}
await browser.close();
await studio.close();
