// `make pictures RUNS=runs/demo` draws the pictures of README and of docs/guide/studio.md: the chart of both models as
// docs/pictures/accuracy.svg, and pages of the studio. The folder needs runs that were trained and attacked.
import { writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import packed from "@sparticuz/chromium";
import { chromium } from "playwright-core";
import { renderAccuracyFigure } from "../dist/report/accuracy-chart.js";
import { compareGroups } from "../dist/report/comparison.js";
import { groupRuns } from "../dist/report/groups.js";
import { describeComparison } from "../dist/report/headline.js";
import { readReportRun } from "../dist/report/report-run.js";
import { RunFolder } from "../dist/runs/run-folder.js";
import { startStudio } from "../dist/studio/studio.js";

const email =
  "Your HGH Request! As seen on NBC, CBS, and CNN, and even Oprah! The health discovery that actually reverses aging " +
  "while burning fat,";
const [folder = "runs/demo", text = email] = process.argv.slice(2);
const docs = resolve(import.meta.dirname, "../docs/pictures");

const found = await RunFolder.find([folder]);
const [task] = groupRuns(await Promise.all(found.map(readReportRun)));
if (!task) throw new Error(`${folder}: expected runs`);
const rows = compareGroups(task).sort((a, b) => Number(b.group === task.baseline) - Number(a.group === task.baseline));
const caption = describeComparison(rows, task.baseline.name);
writeFileSync(join(docs, "accuracy.svg"), renderAccuracyFigure(rows, "The same attack on two spam filters", caption));

const names = found.map((run) => relative(folder, run.folder));
const [first = "", second = first] = names;
const models = [second, first].map((name) => ({ name, runs: [`0/${name}`] }));
/** @type {Record<string, { hash: string, prepare: (page: import("playwright-core").Page) => Promise<unknown> }>} */
const views = {
  run: {
    hash: `#/run?${new URLSearchParams({ id: `0/${first}` })}`,
    prepare: (page) => page.locator(".card").first().waitFor(),
  },
  compare: {
    hash: `#/compare?${new URLSearchParams({ models: JSON.stringify(models) })}`,
    prepare: (page) => page.locator("svg.accuracy").first().waitFor(),
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
const studio = await startStudio({ folders: [folder] });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? (await packed.executablePath()),
  args: ["--no-sandbox", "--disable-gpu"],
});
const context = await browser.newContext({
  viewport: { width: 1180, height: 800 },
  locale: "en-US",
  reducedMotion: "reduce",
});
for (const [name, { hash, prepare }] of Object.entries(views)) {
  const page = await context.newPage();
  await page.goto(`${studio.url}${hash}`);
  await page.locator("h1").waitFor({ state: "attached" });
  await prepare(page);
  await page.waitForTimeout(1000);
  await page.screenshot({ path: join(docs, `studio-${name}-wide-light.png`) });
  await page.close();
}
await browser.close();
await studio.close();
