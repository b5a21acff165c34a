// `node tools/report-pictures.mjs [REPORT.html] [ID]`: pictures of the report of the demo as docs/pictures/report-light.png (the
// comparison and the training curves) and docs/pictures/report-dark.png (an attacked text on which the models differ).
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import packed from "@sparticuz/chromium";
import { chromium } from "playwright-core";

const [report = "runs/demo/report.html", email = "spam-2/00293"] = process.argv.slice(2);
const docs = resolve(import.meta.dirname, "../docs/pictures");
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? (await packed.executablePath()),
  args: ["--no-sandbox", "--disable-gpu"],
});
try {
  for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
    const page = await browser.newPage({ viewport: { width: 1100, height: 1150 }, colorScheme });
    await page.goto(pathToFileURL(resolve(report)).href);
    const path = resolve(docs, `report-${colorScheme}.png`);
    if (colorScheme === "light") await page.screenshot({ path });
    else {
      await page.getByLabel("models differ").check();
      // The email of the README comes first.
      await page.locator("article.example:not([hidden])").evaluateAll((articles, id) => {
        const shown = articles.find((article) => article.querySelector("h4")?.textContent === id);
        for (const article of articles) if (shown && article !== shown) article.remove();
      }, email);
      await page.locator("section[aria-labelledby=examples]").screenshot({ path });
    }
    await page.close();
  }
} finally {
  await browser.close();
}
