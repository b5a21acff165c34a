// Measures the studio in Chromium: how soon a table of 1,000 runs appears, its longest frame while it scrolls, and the
// longest task while a run with a journal of 10,000 texts opens. Runs are copies of the run folder that is given.
import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import packed from "@sparticuz/chromium";
import { chromium } from "playwright-core";
import { openJournal, readJournal } from "../../dist/attacks/journal.js";
import { studio as startStudio } from "../../dist/studio/studio.js";

const [run = "", attack = "pwws"] = process.argv.slice(2);
if (run === "") throw new Error("Usage: node tools/bench/studio.mjs RUN [ATTACK]: a finished run with this attack.");
const numRuns = 1000;
const numTexts = 10_000;
const folder = mkdtempSync(join(tmpdir(), "temper-studio-"));
const journalPath = join(run, "attacks", `${attack}.jsonl`);

const skipLargeFiles = (/** @type {string} */ path) => !["checkpoints", "model"].includes(basename(path));
for (let i = 0; i < numRuns; i++)
  cpSync(run, join(folder, "many", `run-${i}`), { recursive: true, filter: skipLargeFiles });
cpSync(run, join(folder, "long", "run"), { recursive: true, filter: skipLargeFiles });
rmSync(join(folder, "long", "run", "attacks"), { recursive: true });
mkdirSync(join(folder, "long", "run", "attacks"));
const found = [];
for await (const entry of readJournal(journalPath)) found.push(entry);
const header = { ...found[0].header, examples: numTexts };
const journal = await openJournal(join(folder, "long", "run", "attacks", `${attack}.jsonl`), header);
for (let i = 0; i < numTexts; i++) journal.append({ ...found[i % found.length].result, id: `text-${i}` });
journal.close();

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? (await packed.executablePath()),
  args: ["--no-sandbox", "--disable-gpu"],
});

/** Opens a page and records long tasks from the start. @param {string} url */
async function open(url) {
  const page = await (await browser.newContext({ locale: "en-US", viewport: { width: 1280, height: 900 } })).newPage();
  await page.addInitScript(() => {
    const tasks = /** @type {number[]} */ ([]);
    Object.assign(globalThis, { longTasks: tasks });
    new PerformanceObserver((list) => tasks.push(...list.getEntries().map(({ duration }) => duration))).observe({
      type: "longtask",
      buffered: true,
    });
  });
  const start = performance.now();
  await page.goto(url);
  return { page, start, readLongTasks: () => page.evaluate("Math.max(0, ...longTasks)") };
}

/** Scrolls through the whole table and returns the longest time between two frames. */
const scroll = `new Promise((resolve) => {
  const box = document.querySelector(".table-box");
  let last = performance.now(), longest = 0, count = 0;
  const step = (now) => {
    longest = Math.max(longest, now - last);
    last = now;
    box.scrollTop += 400;
    if (++count < 150) requestAnimationFrame(step);
    else resolve(longest);
  };
  requestAnimationFrame((now) => { last = now; requestAnimationFrame(step); });
})`;

{
  const studio = await startStudio({ folders: [join(folder, "many")] });
  const cold = await open(studio.url);
  await cold.page.locator("td.name").first().waitFor();
  console.log(`first rows, studio just started: ${Math.round(performance.now() - cold.start)} ms`);
  await cold.page.getByText(`${numRuns} runs`, { exact: true }).waitFor({ timeout: 120_000 });
  console.log(`all ${numRuns} runs, studio just started: ${Math.round(performance.now() - cold.start)} ms`);
  await cold.page.close();
  const warm = await open(studio.url);
  await warm.page.getByText(`${numRuns} runs`, { exact: true }).waitFor();
  console.log(`all ${numRuns} runs, page opened again: ${Math.round(performance.now() - warm.start)} ms`);
  await warm.page.waitForTimeout(1000);
  console.log(`longest frame while scrolling: ${Math.round(await warm.page.evaluate(scroll))} ms`);
  await warm.page.close();
  await studio.close();
}
{
  const studio = await startStudio({ folders: [join(folder, "long")] });
  const { page, start, readLongTasks } = await open(`${studio.url}#/run?id=0%2Frun`);
  await page
    .getByText(`${numTexts.toLocaleString("en-US")} of ${numTexts.toLocaleString("en-US")} texts`)
    .waitFor({ timeout: 60_000 });
  console.log(`run with ${numTexts} texts opens: ${Math.round(performance.now() - start)} ms`);
  console.log(`longest task: ${Math.round(await readLongTasks())} ms (0: none of 50 ms or more)`);
  await page.close();
  await studio.close();
}
await browser.close();
rmSync(folder, { recursive: true, force: true });
