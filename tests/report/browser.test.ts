import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createReport } from "../../src/report/index.js";
import { launchBrowser } from "../browser.js";
import { chooseExtent } from "../extent.js";
import { listFindings } from "../studio/axe.js";
import { openPage, type PageOptions } from "../studio/open-page.js";
import { temporaryFolder } from "../temporary.js";
import { hostile, writeSample } from "./sample.js";

const folder = temporaryFolder();
const file = join(folder, "report.html");
describe("in a browser", () => {
  let browser: Browser;

  beforeAll(async () => {
    browser = await launchBrowser();
    writeFileSync(file, (await createReport(await writeSample(folder))).html);
  });
  afterAll(() => browser?.close());

  const open = (options: PageOptions = {}) => openPage(browser, pathToFileURL(file).href, "", options);

  test("loads nothing, logs no errors and escapes hostile text", async () => {
    await using opened = await open();
    const { page, complaints, foreignRequests } = opened;
    expect(await page.textContent(".cards")).toContain(hostile.split(" ")[0]);
    expect(await page.locator(".cards img, .cards script").count()).toBe(0);
    expect(await page.locator("script").count()).toBe(1);
    expect(await page.title()).toBe("Temper: spam");
    expect({ complaints, foreignRequests }).toEqual({ complaints: [], foreignRequests: [] });
  });

  test("filters examples by outcome and attack, also with the keyboard", async () => {
    await using opened = await open();
    const { page } = opened;
    const shown = () => page.locator("article.example:visible").count();
    const all = await shown();
    await page.getByLabel("Show").focus();
    await page.keyboard.press("ArrowDown");
    const differing = await shown();
    expect(differing).toBeGreaterThan(0);
    expect(differing).toBeLessThan(all);
    for (const card of await page.locator("article.example:visible").all())
      expect(await card.locator(".version.success").count()).toBe(1);
    expect(await page.textContent("form.filters output")).toBe(`${differing} of ${all} examples`);
    await page.selectOption("select[name=attack]", "pwws");
    expect(await shown()).toBeLessThan(differing);
  });

  test("shows everything and no controls without scripts", async () => {
    await using opened = await open({ script: false });
    const { page } = opened;
    expect(await page.locator("article.example:visible").count()).toBe(await page.locator("article.example").count());
    expect(await page.locator("form.filters:visible").count()).toBe(0);
  });

  // The large screen runs in make test-long.
  const screens = [
    { width: 390, dark: false },
    { width: 1280, dark: true },
  ].slice(0, chooseExtent(1, 2));
  test.each(screens)("fits a screen of $width pixels, dark: $dark", async ({ width, dark }) => {
    await using opened = await open({ width, dark });
    const { page } = opened;
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(width);
    expect(await page.evaluate("getComputedStyle(document.body).backgroundColor")).toBe(
      dark ? "rgb(18, 23, 31)" : "rgb(255, 255, 255)",
    );
    expect(await listFindings(page)).toEqual([]);
  });

  test("prints completely", async () => {
    await using opened = await open();
    const { page } = opened;
    const printed = await page.pdf({ format: "A4" });
    expect(printed.subarray(0, 5).toString()).toBe("%PDF-");
    await page.emulateMedia({ media: "print" });
    expect(await page.locator("nav:visible").count()).toBe(0);
  });
});
