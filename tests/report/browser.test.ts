import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createReport } from "../../src/report/index.js";
import { launchBrowser } from "../browser.js";
import { chooseExtent } from "../extent.js";
import { listFindings } from "../studio/axe.js";
import { temporaryFolder } from "../temporary.js";
import { hostile, writeSample } from "./sample.js";

const folder = temporaryFolder();
const file = join(folder, "report.html");
/** Folder for screenshots of the page, if set. */
const pictures = process.env.TEMPER_PICTURES;

describe("in a browser", () => {
  let browser: Browser;

  beforeAll(async () => {
    browser = await launchBrowser();
    writeFileSync(file, (await createReport(await writeSample(folder))).html);
  });
  afterAll(() => browser?.close());

  async function open(options: { width: number; dark?: boolean; script?: boolean }) {
    const context = await browser.newContext({
      viewport: { width: options.width, height: 900 },
      reducedMotion: "reduce",
      colorScheme: options.dark ? "dark" : "light",
      javaScriptEnabled: options.script ?? true,
    });
    const page = await context.newPage();
    const complaints: string[] = [];
    const requests: string[] = [];
    page.on("console", (message) => complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("dialog", (dialog) => {
      complaints.push(`dialog ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("request", (request) => requests.push(request.url()));
    await page.goto(pathToFileURL(file).href);
    return {
      page,
      complaints,
      requests: () => requests.filter((url) => !url.startsWith("data:")),
      close: () => context.close(),
    };
  }

  /** Takes screenshots of the sections; the complete page is too tall for one image. */
  async function photograph(page: Page, name: string): Promise<void> {
    await page.setViewportSize({ width: page.viewportSize()!.width, height: 1500 });
    for (const part of ["comparison", "examples", "training", "runs"]) {
      await page.evaluate(`document.querySelector("details.run").open = true; location.hash = "#${part}"`);
      await page.screenshot({ path: join(pictures!, `report-${name}-${part}.png`) });
    }
  }

  test("loads nothing, logs no errors and escapes hostile text", async () => {
    const { page, complaints, requests, close } = await open({ width: 1280 });
    expect(await page.textContent(".cards")).toContain(hostile.split(" ")[0]);
    expect(await page.locator(".cards img, .cards script").count()).toBe(0);
    expect(await page.locator("script").count()).toBe(1);
    expect(await page.title()).toBe("Temper: spam");
    expect({ complaints, requests: requests() }).toEqual({ complaints: [], requests: [pathToFileURL(file).href] });
    await close();
  });

  test("filters examples by outcome and attack, also with the keyboard", async () => {
    const { page, close } = await open({ width: 1280 });
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
    await close();
  });

  test("shows everything and no controls without scripts", async () => {
    const { page, close } = await open({ width: 1280, script: false });
    expect(await page.locator("article.example:visible").count()).toBe(await page.locator("article.example").count());
    expect(await page.locator("form.filters:visible").count()).toBe(0);
    await close();
  });

  // The large screen runs in make test-long.
  const screens = [
    { width: 390, dark: false },
    { width: 1280, dark: true },
  ].slice(0, chooseExtent(1, 2));
  test.each(screens)("fits a screen of $width pixels, dark: $dark", async ({ width, dark }) => {
    const { page, close } = await open({ width, dark });
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(width);
    expect(await page.evaluate("getComputedStyle(document.body).backgroundColor")).toBe(
      dark ? "rgb(18, 23, 31)" : "rgb(255, 255, 255)",
    );
    expect(await listFindings(page)).toEqual([]);
    if (pictures) await photograph(page, `${width}-${dark ? "dark" : "light"}`);
    await close();
  });

  test("prints completely", async () => {
    const { page, close } = await open({ width: 1280 });
    const printed = await page.pdf({ format: "A4", ...(pictures ? { path: join(pictures, "report.pdf") } : {}) });
    expect(printed.subarray(0, 5).toString()).toBe("%PDF-");
    await page.emulateMedia({ media: "print" });
    expect(await page.locator("nav:visible").count()).toBe(0);
    await close();
  });
});
