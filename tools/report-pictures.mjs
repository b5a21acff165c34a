// `node tools/report-pictures.mjs [FOLDER] [ID]`: pictures of the report of the demo in docs/pictures: report-light.png (the
// comparison), report-dark.png (an attacked text on which the models differ), and accuracy.svg, the chart of the README.
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import packed from "@sparticuz/chromium";
import { chromium } from "playwright-core";
import { renderAccuracyFigure } from "../dist/report/accuracy-chart.js";
import { compareGroups } from "../dist/report/comparison.js";
import { groupRuns } from "../dist/report/groups.js";
import { describeComparison } from "../dist/report/headline.js";
import { readReportRun } from "../dist/report/report-run.js";
import { RunFolder } from "../dist/runs/run-folder.js";

const [folder = "runs/demo", email = "spam-2/00293"] = process.argv.slice(2);
const docs = resolve(import.meta.dirname, "../docs/pictures");

const found = await RunFolder.find([folder]);
const [task] = groupRuns(await Promise.all(found.map(readReportRun)));
if (!task) throw new Error(`${folder}: expected runs`);
const rows = compareGroups(task).sort((a, b) => Number(b.group === task.baseline) - Number(a.group === task.baseline));
const caption = describeComparison(rows, task.baseline.name);
writeFileSync(join(docs, "accuracy.svg"), renderAccuracyFigure(rows, "The same attack on two spam filters", caption));

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? (await packed.executablePath()),
  args: ["--no-sandbox", "--disable-gpu"],
});
try {
  for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
    const page = await browser.newPage({ viewport: { width: 1000, height: 1080 }, colorScheme });
    await page.goto(pathToFileURL(resolve(folder, "report.html")).href);
    const path = join(docs, `report-${colorScheme}.png`);
    if (colorScheme === "light") await page.screenshot({ path });
    else {
      await page.getByLabel("models differ").check();
      // The email of the README comes first, if it is among them.
      await page.locator("article.example:not([hidden])").evaluateAll((articles, id) => {
        const shown = articles.find((article) => article.querySelector("h3")?.textContent === id) ?? articles[0];
        for (const article of articles) if (article !== shown) article.remove();
        shown?.querySelector("details")?.setAttribute("open", "");
      }, email);
      await page.locator("section[aria-labelledby=examples]").screenshot({ path });
    }
    await page.close();
  }
} finally {
  await browser.close();
}
