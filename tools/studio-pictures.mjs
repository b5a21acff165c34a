// `make studio-pictures RUNS=runs/demo`: pictures of the runs, run and playground pages as docs/pictures/studio-*.png, wide and phone,
// light and dark. The folder needs a run that was trained and attacked; the playground uses its first two models.
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

const [first = "", second] = names;
const views = {
  runs: { hash: "#/runs", prepare: async () => {} },
  run: { hash: `#/run?${new URLSearchParams({ id: `0/${first}` })}`, prepare: async () => {} },
  playground: {
    hash: `#/playground?${new URLSearchParams({ first: `0/${first}` })}`,
    prepare: async (/** @type {import("playwright-core").Page} */ page) => {
      if (second) await page.getByLabel("Second model").selectOption({ label: second });
      await page.getByLabel("Text", { exact: true }).fill(text);
      await page.getByRole("button", { name: "Start attack" }).click();
      await page.getByRole("button", { name: "Copy as a test case" }).first().waitFor({ timeout: 120_000 });
      await page.getByRole("button", { name: "Start attack" }).waitFor({ timeout: 120_000 });
    },
  },
};
for (const [size, viewport] of Object.entries({
  wide: { width: 1280, height: 800 },
  phone: { width: 390, height: 844 },
}))
  for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
    const context = await browser.newContext({ viewport, colorScheme, locale: "en-US", reducedMotion: "reduce" });
    for (const [name, { hash, prepare }] of Object.entries(views)) {
      const page = await context.newPage();
      await page.goto(`${studio.url}${hash}`);
      await page.locator("h1").waitFor({ state: "attached" });
      await page.waitForTimeout(1500);
      await prepare(page);
      await page.waitForTimeout(500);
      const path = join(docs, `studio-${name}-${size}-${colorScheme}.png`);
      await page.screenshot({ path, fullPage: name === "playground" });
      await page.close();
    }
    await context.close();
  }
await browser.close();
await studio.close();
