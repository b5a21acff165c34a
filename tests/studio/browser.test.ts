import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { cpSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Browser, Locator } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Run } from "../../src/actions/run.js";
import { train } from "../../src/actions/train/train.js";
import { attackNames } from "../../src/attacks/load-attack.js";
import { Rng } from "../../src/base/rng.js";
import { JobStore } from "../../src/studio/jobs.js";
import { type Studio, studio as startStudio } from "../../src/studio/studio.js";
import { launchBrowser } from "../browser.js";
import { isLong, testLong } from "../long.js";
import { attackResult, writeRun } from "../report/run-folder.js";
import { hostile, writeSample } from "../report/sample.js";
import { temporaryFolder } from "../temporary.js";
import { reviews, tinyRun } from "../tiny-run.js";
import { listFindings } from "./axe.js";
import { openPage } from "./open-page.js";

const folder = temporaryFolder();
const runs = join(folder, "runs");
/** The name of a run that breaks pages which do not escape it. */
const hostileName = '"><img src=x onerror=alert(4)><script>';
const longText = Array.from({ length: 300 }, (_, i) => `word${i}`).join(" ");
let browser: Browser;
let studio: Studio;

const linkToRun = (name: string): string => `#/run?${new URLSearchParams({ id: `0/${name}` })}`;

beforeAll(async () => {
  await writeSample(runs);
  await writeRun(join(runs, hostileName), {
    labels: ["<script>alert(3)</script>", '"><img src=x onerror=alert(5)>'],
    attacks: {
      pwws: [attackResult("<b>id</b>", hostile, "success", { 0: "<i>news</i>" })],
      textfooler: [attackResult("long", longText, "success", { 150: "changed" })],
    },
  });
  const substitutions = join(folder, "substitutions.json");
  writeFileSync(substitutions, JSON.stringify({ good: ["dull", "fine"], bad: ["warm", "cold"], film: ["plot"] }));
  for (const seed of [0, 1])
    await train({
      ...(await tinyRun(join(folder, "data"), { seed, substitutions, train: { epochs: 8 } })),
      data: join(folder, "data", "reviews.tsv"),
      out: join(runs, `tiny-seed${seed}`),
    });
  [browser, studio] = await Promise.all([launchBrowser(), startStudio({ folders: [runs] })]);
});
/** A job goes on without the studio, so a failed test must not leave one. */
async function stopJobs(): Promise<void> {
  const jobs = new JobStore(join(runs, ".studio", "jobs"), [runs]);
  for (const { id } of await jobs.list(async () => null)) await jobs.stop(id);
}

afterAll(async () => {
  await stopJobs();
  await browser?.close();
  await studio?.close();
});

testLong("the table filters and sorts runs, and compares those that are selected", async () => {
  await using open = await openPage(browser, studio.url);
  const { page } = open;
  const names = () => page.locator("td.name a").allTextContents();
  await page.getByRole("link", { name: "spam-ascc-seed0" }).waitFor();
  await page.getByText("5 runs", { exact: true }).waitFor();
  expect((await names()).toSorted()).toEqual(
    ["spam-ascc-seed0", "spam-standard-seed0", "tiny-seed0", "tiny-seed1", hostileName].toSorted(),
  );
  await page.getByRole("button", { name: "pwws" }).click();
  expect((await names()).slice(0, 2)).toEqual(["spam-ascc-seed0", "spam-standard-seed0"]);
  await page.getByPlaceholder("Search by name").fill("spam-");
  await page.getByText("2 runs", { exact: true }).waitFor();
  for (const name of ["standard", "ascc"]) await page.getByLabel(`Select spam-${name}-seed0`).check();
  await page.getByRole("button", { name: "Compare 2" }).click();
  // Standard fine-tuning is the baseline, although its name comes second.
  await page.getByText(/^Under all attacks, ascc is right on .* points more/).waitFor();
  expect(await page.getByLabel("Baseline").inputValue()).toBe("standard");
  expect(await page.getByRole("row", { name: /ascc.*better than standard.*\+\d/ }).count()).toBe(1);
  expect(await page.locator("svg.accuracy").count()).toBe(3);
  expect(await page.locator("article.example").count()).toBeGreaterThan(0);
  expect(await page.getByText("Training loss, all terms").count()).toBe(1);
  await page.getByLabel("Baseline").selectOption("ascc");
  await page.getByText(/^Under all attacks, standard is right on .* points fewer/).waitFor();
  expect(open.complaints).toEqual([]);
  expect(open.foreignRequests).toEqual([]);
});

test("hostile names, labels and texts are shown as text", async () => {
  await using open = await openPage(browser, studio.url, linkToRun(hostileName));
  const { page } = open;
  expect(await page.textContent("h1")).toBe(hostileName);
  await page.locator(".cards .example").first().waitFor();
  const card = (await page.textContent(".cards .example")) ?? "";
  for (const text of ["<b>id</b>", "<i>news</i>", "onerror=alert(2)", "<script>alert(3)</script>"])
    expect(card).toContain(text);
  expect(await page.locator("main img, main script, main b b, main i").count()).toBe(0);
  expect(open.complaints).toEqual([]);
});

test("a long text is folded around its changes until somebody opens it", async () => {
  await using open = await openPage(browser, studio.url, linkToRun(hostileName));
  const { page } = open;
  await page.getByRole("combobox", { name: /^Attack/ }).selectOption("textfooler");
  const text = page.locator(".cards .version .text", { hasText: "changed (was word150)" });
  await text.waitFor();
  const opened = text.locator("details[open]", { hasText: "word0 word1 " });
  expect(await opened.count()).toBe(0);
  await text.getByText("138 words").click();
  expect(await opened.count()).toBe(1);
  expect(open.complaints).toEqual([]);
});

test("the page of a run searches its texts and shows its charts, figures and settings, in any language", async () => {
  const options = { language: "en-US@posix" };
  await using open = await openPage(browser, studio.url, linkToRun("spam-ascc-seed0"), options);
  const { page } = open;
  await page.getByText("60 of 60 texts").waitFor();
  await page.getByLabel("Outcome").selectOption("success");
  await page.getByPlaceholder("Search the texts").fill("mortgage");
  await expect.poll(() => page.locator(".cards .badge:not(.success)").count()).toBe(0);
  await expect.poll(() => page.textContent(".filters output")).toMatch(/^\d of 60 texts$/);
  expect(await page.locator("figure.chart svg").count()).toBeGreaterThan(2);
  expect(await page.getByRole("img", { name: /ascc ends at a distance/ }).count()).toBe(1);
  expect(await page.getByRole("row", { name: "train.learningRate 0.0001 0.00005" }).count()).toBe(1);
  expect(open.complaints).toEqual([]);
});

test("the playground scores while typing, swaps words and attacks two models", async () => {
  await using open = await openPage(browser, studio.url, "#/playground?first=0%2Ftiny-seed0");
  const { page } = open;
  const panels = page.locator(".panel");
  const read = async (): Promise<string> => (await panels.first().locator("td").allTextContents()).join();
  await page.getByLabel("Text", { exact: true }).fill("a good film");
  await panels.first().getByRole("button", { name: "good" }).waitFor();
  const before = await read();
  // By hand: swap the word that decides.
  await panels.first().getByRole("button", { name: "good" }).click();
  await panels.first().getByRole("button", { name: "dull", exact: true }).click();
  await expect.poll(() => page.getByLabel("Text", { exact: true }).inputValue()).toBe("a dull film");
  await expect.poll(read).not.toBe(before);
  // By attack.
  await page.getByLabel("Second model").selectOption("0/tiny-seed1");
  await expect.poll(() => panels.count()).toBe(2);
  await page.getByLabel("Text", { exact: true }).fill("a good film of the film of the film");
  await page.getByRole("button", { name: "Start attack" }).click();
  await expect.poll(() => page.getByRole("button", { name: "Continue with this text" }).count()).toBe(2);
  expect(await panels.first().locator(".counter").textContent()).toMatch(/^\d+ queries$/);
  expect(await panels.first().locator(".attack .badge").textContent()).toBe("fooled");
  expect(await panels.first().locator("ins").first().textContent()).toBe("dull (was good)");
  expect(open.complaints).toEqual([]);
  expect(open.foreignRequests).toEqual([]);
});

/** Opens a studio with models of one and two fields, with other labels, and with an ONNX file. */
async function startVariedStudio(): Promise<Studio> {
  const varied = join(folder, "varied");
  const config = await tinyRun(join(folder, "data"), { train: { epochs: 1 } });
  const pairs = join(folder, "data", "pairs.tsv");
  const [first, second] = [reviews(90, "first"), reviews(90, "second")];
  const rows = first.map(({ text }, i) => `${text}\t${second[i]!.text}\t${["yes", "no", "maybe"][i % 3]}`);
  writeFileSync(pairs, `first\tsecond\tlabel\n${rows.join("\n")}\n`);
  await train({ ...config, out: join(varied, "one-field") });
  await train({ ...config, data: pairs, textColumn: ["first", "second"], out: join(varied, "two-fields") });
  cpSync(join(import.meta.dirname, "../fixtures/onnx-tiny"), join(varied, "exported"), { recursive: true });
  return startStudio({ folders: [varied] });
}

test("models, attacks and examples are switched 50 times at random while answers are slow and out of order", async () => {
  await using varied = await startVariedStudio();
  await using open = await openPage(browser, varied.url, "#/playground");
  const { page, complaints } = open;
  const seed = Number(process.env.TEMPER_SEED ?? randomInt(1e6));
  console.log(`TEMPER_SEED=${seed} repeats these switches.`);
  const rng = new Rng(seed).fork("switches");
  const delays = new Rng(seed).fork("delays");
  await page.route("**/api/playground/*", async (route) => {
    await new Promise((resolve) => setTimeout(resolve, delays.integer(400)));
    await route.continue().catch(() => undefined);
  });
  const [model, second] = [0, 1].map((i) => page.locator(".pickers select").nth(i)) as [Locator, Locator];
  await expect.poll(() => model.locator("option").count()).toBe(3);
  /** Chooses one of the options that a list has now; none if the list is not there or is empty. */
  const choose = async (select: Locator): Promise<void> => {
    const values = await select.locator("option").evaluateAll((options) => options.map((each) => each.value));
    if (values.length === 0) return;
    await select.selectOption(values[rng.integer(values.length)]!, { timeout: 1000 }).catch(() => null);
  };
  const actions = [
    () => choose(model),
    () => choose(second),
    () => choose(page.getByRole("combobox", { name: "Example from the test set" })),
    () => choose(page.getByRole("combobox", { name: /^Attack/ })),
    () => choose(page.getByRole("combobox", { name: /^Correct label/ })),
    () =>
      page
        .locator("textarea")
        .first()
        .fill(rng.integer(2) === 0 ? "a good film" : "it was a dull plot"),
    // It may be disabled or gone at this moment.
    () =>
      page
        .locator(".filters button[type=submit]")
        .click({ timeout: 200 })
        .catch(() => null),
  ];
  for (let i = 0; i < 50; i++) await actions[rng.integer(actions.length)]!();
  // The page still works: it shows the models that are chosen, and what they say about a new text.
  await model.selectOption({ label: "two-fields" });
  await second.selectOption({ label: "exported" });
  await expect.poll(() => page.locator(".panel h2").allTextContents()).toEqual(["two-fields", "exported"]);
  expect(await page.locator("textarea").count()).toBe(2);
  await model.selectOption({ label: "one-field" });
  await expect.poll(() => page.locator(".panel h2").allTextContents()).toEqual(["one-field", "exported"]);
  await page.locator("textarea").fill("a good film of the scene");
  await expect.poll(() => page.locator(".panel .words button").count()).toBe(12);
  const labels = await page.locator(".panel").first().locator("th").allTextContents();
  expect(labels.toSorted()).toEqual(["negative", "positive"]);
  expect(complaints).toEqual([]);
});

test("an attack in the playground has options and is stopped", async () => {
  await using open = await openPage(browser, studio.url, "#/playground?first=0%2Ftiny-seed0");
  const { page } = open;
  await page.getByLabel("Text", { exact: true }).fill("the film of the film ".repeat(5));
  await page.getByRole("combobox", { name: /^Attack/ }).selectOption("random");
  await page.getByText(/^Options of/).click();
  // Every option has a field, and a wrong value is explained.
  const samples = page.locator('[name="samples"]');
  expect(await samples.getAttribute("placeholder")).toBe("default: 100");
  await samples.fill("0");
  await page.getByRole("button", { name: "Start attack" }).click();
  await page.locator(".attack .problem", { hasText: "samples" }).waitFor();
  await samples.fill("1000000");
  await page.getByRole("button", { name: "Start attack" }).click();
  await page.locator(".counter", { hasText: /[1-9]/ }).waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator(".panel").getByText("Stopped.").waitFor();
  await page.getByRole("button", { name: "Start attack" }).waitFor();
  expect(open.complaints).toEqual([]);
});

/** Starts the studio as a process of its own, so that it can be killed. */
async function spawnStudio(): Promise<{ readonly url: string; kill(): Promise<void> }> {
  const child = spawn(process.execPath, ["dist/cli/main.js", "studio", runs], { stdio: ["ignore", "pipe", "ignore"] });
  const kill = (): Promise<void> => new Promise((resolve) => void child.once("exit", () => resolve()).kill("SIGKILL"));
  for await (const url of createInterface(child.stdout)) return { url, kill };
  throw new Error("the studio printed no address");
}

test("a job is started from a form, updates live, is stopped, survives the kill of the studio and is resumed", async () => {
  const own = await spawnStudio();
  const out = join(runs, "job");
  const readStep = async (): Promise<number> => (await (await Run.open(out)).progress())!.step;
  {
    await using open = await openPage(browser, own.url, "#/jobs");
    const { page } = open;
    await page.getByRole("button", { name: "Train a model" }).click();
    // Every problem is shown at once.
    const field = (name: string) => page.locator(`[name="${name}"]`);
    await field("train.epochs").fill("many");
    await field("methods").fill("acsc");
    await page.getByRole("button", { name: "Start training" }).click();
    for (const text of ["Expected a model", "Expected a number.", 'did you mean "ascc"', "Choose a dataset"])
      await page.locator(".field-problem", { hasText: text }).waitFor();
    await page.getByText("4 fields need another value").waitFor();
    await page.getByText(/All settings/).click();
    await field("model").fill(join(folder, "data", "tiny-bert"));
    await field("data").fill(join(folder, "data", "reviews.tsv"));
    // The columns of the file are offered.
    await page.getByRole("checkbox", { name: "text", exact: true }).check();
    await page.locator('datalist option[value="label"]').waitFor({ state: "attached" });
    await field("labelColumn").fill("label");
    await field("methods").fill("");
    await field("maxLength").fill("12");
    await field("out").fill(out);
    await field("train.epochs").fill("100000");
    await page.getByText(`--out ${out}`).waitFor();
    await page.getByRole("button", { name: "Start training" }).click();
    await page.locator(".job .badge.state-running").waitFor();
    await page.locator(".count", { hasText: /^[\d,]+ of [\d,]+ steps, [\d:]+ left$/ }).waitFor();
    // The page follows the files of the run.
    const shown = async () => Number.parseInt((await page.textContent(".job .count"))!.replaceAll(",", ""), 10);
    const step = await readStep();
    await expect.poll(shown).toBeGreaterThanOrEqual(step);
    expect(open.complaints).toEqual([]);
  }
  await own.kill();
  const before = await readStep();
  await using again = await startStudio({ folders: [runs] });
  await using open = await openPage(browser, again.url, "#/jobs");
  const { page } = open;
  await page.locator(".job .badge.state-running").waitFor();
  await expect.poll(readStep).toBeGreaterThan(before);
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator(".job .badge.state-stopped").waitFor();
  const stopped = await readStep();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.locator(".job .badge.state-running").waitFor();
  await expect.poll(readStep).toBeGreaterThan(stopped);
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator(".job .badge.state-stopped").waitFor();
  expect(open.complaints).toEqual([]);
});

testLong("a classifier is hardened from a form", async () => {
  await using open = await openPage(browser, studio.url, "#/jobs?form=harden");
  const { page } = open;
  const field = (name: string) => page.locator(`[name="${name}"]`);
  await field("data").fill(join(folder, "data", "reviews.tsv"));
  await page.getByRole("checkbox", { name: "text", exact: true }).check();
  await field("labelColumn").fill("label");
  await field("numExamples").fill("8");
  await page.getByText(`Choose from ${attackNames.length}`).click();
  await page.getByRole("checkbox", { name: /^random/ }).check();
  await page.getByText(/All settings/).click();
  await field("model").fill(join(folder, "data", "tiny-bert"));
  await field("substitutions").fill(join(folder, "substitutions.json"));
  await field("maxLength").fill("12");
  await field("epochs").fill("1");
  await field("out").fill(join(runs, "hardened"));
  await page.getByText("temper harden --data").waitFor();
  await page.getByRole("button", { name: "Start hardening" }).click();
  await page.locator(".job", { hasText: "harden, started" }).locator(".badge.state-finished").waitFor();
  expect(existsSync(join(runs, "hardened", "report.html"))).toBe(true);
  expect(open.complaints).toEqual([]);
});

test("pairs are rated with the keyboard", async () => {
  await using open = await openPage(browser, studio.url, "#/rate");
  const { page } = open;
  await page.getByLabel("Attack").selectOption("spam-standard-seed0, pwws");
  await page.getByLabel("Your name").fill("ada");
  await page.getByText("21 pairs left").waitFor();
  await page.getByRole("heading", { name: "Rate attacked texts" }).click();
  await page.keyboard.type("ynn");
  await page.keyboard.press("Backspace");
  await page.keyboard.type("y");
  expect(await page.getByRole("radio", { name: "yes", checked: true }).count()).toBe(2);
  await page.keyboard.press("Enter");
  await page.getByText("20 pairs left").waitFor();
  await page.getByText("1 judgments of 1 pairs by 1 person").waitFor();
  expect(open.complaints).toEqual([]);
});

test("without the token, a person reads what to do", async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(new URL("/", studio.url).href);
  await page.getByText("temper studio --open").waitFor();
  expect(await listFindings(page)).toEqual([]);
  await context.close();
});

test("axe finds nothing on the pages, in both color schemes, and nothing is wider than the screen", async () => {
  const views = [
    ...["#/runs", linkToRun("spam-ascc-seed0"), "#/jobs", "#/rate"],
    ...["harden", "train", "attack"].map((form) => `#/jobs?form=${form}`),
    "#/compare?run=0%2Fspam-standard-seed0&run=0%2Fspam-ascc-seed0",
    "#/playground?first=0%2Ftiny-seed0",
  ];
  const looks = [
    { colorScheme: "dark", width: 1280 },
    { colorScheme: "light", width: 390 },
  ] as const;
  // Two pages with one look each; in make test-long, all pages with both.
  const tried = isLong
    ? views.map((view) => ({ view, own: [0, 1] }))
    : ["#/runs", "#/jobs?form=train"].map((view, i) => ({ view, own: [i] }));
  for (const { view, own } of tried) {
    await using open = await openPage(browser, studio.url, view, { dark: true });
    const { page } = open;
    await page.locator("h1").waitFor({ state: "attached" });
    if (view.includes("form=")) await page.locator(".fields").first().waitFor();
    if (view.includes("compare")) await page.locator("svg.accuracy").first().waitFor();
    if (view.includes("playground")) {
      await page.getByLabel("Text", { exact: true }).fill("a good film");
      await page.getByRole("button", { name: "good" }).waitFor();
    }
    for (const { colorScheme, width } of own.map((i) => looks[i]!)) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 900 });
      expect({ view, width, findings: await listFindings(page) }).toEqual({ view, width, findings: [] });
      const isTooWide = (await page.evaluate<number>("document.documentElement.scrollWidth")) > width;
      expect({ view, width, isTooWide }).toEqual({ view, width, isTooWide: false });
    }
    expect(open.complaints).toEqual([]);
  }
});
