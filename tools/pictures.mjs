// `make pictures RUNS=runs/demo` draws the pictures of README and of docs/guide/studio.md: the chart of both models as
// docs/pictures/accuracy.svg, and pages of the studio. The folder needs runs that were trained and attacked.
// With a second folder (ALL=pictures), every page is drawn there in all sizes and colors, to be looked at.
import { mkdirSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import packed from "@sparticuz/chromium";
import { chromium } from "playwright-core";
import { renderAccuracyFigure } from "../dist/report/accuracy-chart.js";
import { compareGroups } from "../dist/report/comparison.js";
import { groupRuns } from "../dist/report/groups.js";
import { describeComparison } from "../dist/report/headline.js";
import { readReportRun } from "../dist/report/report-run.js";
import { RunFolder } from "../dist/runs/run-folder.js";
import { studio as startStudio } from "../dist/studio/studio.js";

const email =
  "Your HGH Request! As seen on NBC, CBS, and CNN, and even Oprah! The health discovery that actually reverses aging " +
  "while burning fat,";
const [folder = "runs/demo", all = ""] = process.argv.slice(2);
const docs = resolve(import.meta.dirname, "../docs/pictures");

const found = await RunFolder.find([folder]);
const [task] = groupRuns(await Promise.all(found.map(readReportRun)));
if (!task) throw new Error(`${folder}: expected runs`);
const rows = compareGroups(task).sort((a, b) => Number(b.group === task.baseline) - Number(a.group === task.baseline));
const caption = describeComparison(rows, task.baseline.name);
if (all === "")
  writeFileSync(join(docs, "accuracy.svg"), renderAccuracyFigure(rows, "The same attack on two spam filters", caption));

const names = found.map((run) => relative(folder, run.folder));
const [first = "", second = first] = names;
const compared = [second, first].map((name) => ["run", `0/${name}`]);
/**
 * The address of each page, and what to wait for.
 * @type {Record<string, { hash: string, prepare: (page: import("playwright-core").Page) => Promise<unknown> }>}
 */
const views = {
  run: {
    hash: `#/run?${new URLSearchParams({ id: `0/${first}` })}`,
    prepare: (page) => page.locator(".cards .example").first().waitFor(),
  },
  compare: {
    hash: `#/compare?${new URLSearchParams(compared)}`,
    prepare: (page) => page.locator("svg.accuracy").first().waitFor(),
  },
  playground: {
    hash: `#/playground?${new URLSearchParams({ first: `0/${second}` })}`,
    prepare: async (page) => {
      if (second !== first) await page.getByLabel("Second model").selectOption({ label: first });
      await page.getByLabel("Text", { exact: true }).fill(email);
      await page.locator(".word").first().waitFor();
      await page.getByRole("button", { name: "Start attack" }).click();
      await page.getByRole("button", { name: "Continue with this text" }).first().waitFor();
      await page.getByRole("button", { name: "Start attack" }).waitFor();
    },
  },
};
const forms = Object.fromEntries(
  ["harden", "train", "attack"].map((form) => {
    const prepare = (/** @type {import("playwright-core").Page} */ page) => page.locator(".fields").first().waitFor();
    return [`form-${form}`, { hash: `#/jobs?form=${form}`, prepare }];
  }),
);
/** Pages that documents do not show. @type {typeof views} */
const others = {
  runs: { hash: "#/runs", prepare: (page) => page.locator("td.name").first().waitFor() },
  rate: {
    hash: "#/rate",
    prepare: async (page) => {
      await page.getByLabel("Your name").fill("Ada");
      await page.locator("fieldset").first().waitFor();
    },
  },
  ...forms,
};

const studio = await startStudio({ folders: [folder] });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? (await packed.executablePath()),
  args: ["--no-sandbox", "--disable-gpu"],
});

/**
 * Draws pages of one size and color scheme into files whose names end with `look`.
 * @param {typeof views} pages @param {number} width @param {"light" | "dark"} colorScheme
 * @param {(name: string) => { path: string, fullPage: boolean }} describe
 */
async function draw(pages, width, colorScheme, describe) {
  const context = await browser.newContext({
    viewport: { width, height: 800 },
    locale: "en-US",
    reducedMotion: "reduce",
    colorScheme,
  });
  for (const [name, { hash, prepare }] of Object.entries(pages)) {
    const page = await context.newPage();
    page.setDefaultTimeout(120_000);
    await page.goto(`${studio.url}${hash}`);
    await page.locator("h1").waitFor({ state: "attached" });
    await prepare(page);
    await page.waitForTimeout(1000);
    await page.screenshot(describe(name));
    await page.close();
  }
  await context.close();
}

if (all === "") {
  const describe = (/** @type {string} */ name) => ({
    path: join(docs, `studio-${name}-wide-light.png`),
    // The results of the attacks are at the end.
    fullPage: name === "playground",
  });
  await draw(views, 1180, "light", describe);
} else {
  mkdirSync(all, { recursive: true });
  const sizes = /** @type {const} */ ([
    ["wide", 1680, "light"],
    ["1280", 1280, "dark"],
    ["1280", 1280, "light"],
    ["phone", 390, "light"],
    ["phone", 390, "dark"],
  ]);
  for (const [size, width, scheme] of sizes)
    await draw({ ...views, ...others }, width, scheme, (name) => ({
      path: join(all, `${name}-${size}-${scheme}.png`),
      fullPage: true,
    }));
}
await browser.close();
await studio.close();
