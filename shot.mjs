import packed from "@sparticuz/chromium";
import { chromium } from "playwright-core";
const browser = await chromium.launch({ executablePath: await packed.executablePath(), args: ["--no-sandbox", "--disable-gpu"] });
for (const [name, width, colorScheme] of [["wide",1680,"light"],["1280",1280,"dark"],["phone",390,"light"]]) {
  const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme });
  const page = await context.newPage();
  await page.goto(`file://${process.argv[2]}`);
  await page.waitForTimeout(500);
  await page.screenshot({ path: `${process.argv[3]}-${name}.png`, fullPage: true });
  if (name === "wide") await page.pdf({ path: `${process.argv[3]}.pdf`, format: "A4", printBackground: false });
  await context.close();
}
await browser.close();
