import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseHTML } from "linkedom";
import { expect, test } from "vitest";
import { createReport } from "../../src/report/index.js";
import { readReportRuns } from "../../src/report/read-run.js";
import { invoke } from "../cli/invoke.js";
import { temporaryFolder } from "../temporary.js";
import { attackResult, writeRun } from "./run-folder.js";
import { hostile, svg, writeSample } from "./sample.js";

const folder = temporaryFolder();
const parse = (page: string) => parseHTML(page).document;

test("temper report writes one file with everything in it", async () => {
  const out = join(folder, "new", "report.html");
  const { code, stdout, stderr } = await invoke([
    "report",
    ...(await writeSample(join(folder, "sample"))),
    "--out",
    out,
  ]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(/^.*report\.html: 2 runs, 4 attacks, \d+ attacked texts, 1 figure \(/);
  const page = parse(readFileSync(out, "utf8"));
  expect([...page.querySelectorAll("h2")].map((heading) => heading.textContent)).toEqual([
    ...["Comparison", "Signs to look into", "Training", "Figures", "Attacked texts", "What was run"],
  ]);
  // Every part can be reached from the contents, every table says what it is, every picture has words.
  for (const link of page.querySelectorAll("nav a"))
    expect(page.querySelector(link.getAttribute("href")!)).not.toBeNull();
  for (const table of page.querySelectorAll("table")) expect(table.querySelector("caption")?.textContent).not.toBe("");
  for (const cell of page.querySelectorAll("th")) expect(["col", "row"]).toContain(cell.getAttribute("scope"));
  for (const image of page.querySelectorAll("img")) expect(image.getAttribute("alt")).not.toBe("");
  const ids = [...page.querySelectorAll("[id]")].map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
});

test("no text of the data becomes markup, and figures stay images", async () => {
  const { html } = await createReport(await writeSample(join(folder, "hostile")));
  const page = parse(html);
  expect(page.querySelectorAll("script")).toHaveLength(1);
  expect(page.querySelectorAll("[onerror], [onload], [onclick], iframe, object, base")).toHaveLength(0);
  expect(html).not.toContain(hostile);
  expect(page.querySelector("img")!.getAttribute("src")).toBe(
    `data:image/svg+xml;base64,${Buffer.from(svg).toString("base64")}`,
  );
  expect(page.querySelector("meta[http-equiv]")!.getAttribute("content")).toMatch(
    /^default-src 'none'; img-src data:;/,
  );
  // Whatever names an address lies in the file itself.
  for (const element of page.querySelectorAll("[src], [href]")) {
    expect(element.getAttribute("src") ?? element.getAttribute("href")).toMatch(/^(#|data:)/);
  }
});

test("hostile names of labels, methods, metrics and folders are text too", async () => {
  const run = await writeRun(join(folder, "<img src=x onerror=alert(1)>"), {
    labels: ["<b>ham</b>", "<b>spam</b>"],
    attacks: { "<i>pwws": [attackResult("<u>id", "buy it now", "success", { 1: "<s>them" })] },
  });
  const page = parse((await createReport([run])).html);
  expect(page.querySelectorAll("main i, main u, main s, main img, .probabilities b")).toHaveLength(0);
  expect(page.querySelector("article.example h4")!.textContent).toBe("<u>id");
  expect(page.querySelector("ins")!.textContent).toBe("<s>them (was it)");
});

test("the original stands above with the changed words marked, the change below with its probabilities", async () => {
  const text = "Buy it now,  before it is gone";
  const run = await writeRun(join(folder, "diff"), {
    attacks: { pwws: [attackResult("mail", text, "success", { 0: "Purchase", 3: "ere" })] },
  });
  const card = parse((await createReport([run])).html).querySelector("article.example")!;
  expect(card.querySelector(".original p")!.textContent).toBe(text);
  expect([...card.querySelectorAll(".original del")].map((mark) => mark.textContent)).toEqual(["Buy", "before"]);
  const ins = [...card.querySelectorAll(".version ins")].map((mark) => mark.firstChild!.textContent);
  expect(ins).toEqual(["Purchase", "ere"]);
  const cells = [...card.querySelectorAll(".gold td")].map((cell) => cell.textContent);
  expect(cells).toEqual(["93.0%", "31.0%"]);
  expect(card.getAttribute("data-kinds")).toBe("success");
});

test("long texts are shown around their changes", async () => {
  const text = `${"word ".repeat(100)}offer ${"more ".repeat(100)}end`;
  const run = await writeRun(join(folder, "long"), {
    attacks: { pwws: [attackResult("mail", text, "success", { 100: "deal" })] },
  });
  const shown = parse((await createReport([run])).html).querySelector(".version .text")!.textContent!;
  expect(shown).toBe(`[… 88 words …] ${"word ".repeat(12)}deal (was offer) ${"more ".repeat(11)}more [… 89 words …] `);
});

test("flags and the command that the attack left are told", async () => {
  const run = await writeRun(join(folder, "flagged"), {
    attacks: { pwws: [attackResult("mail", "buy it now", "failed")] },
  });
  const sanity = [{ name: "dropout", message: "dropout <may> be on" }];
  writeFileSync(
    join(run, "attacks/report.json"),
    JSON.stringify({ attacks: { pwws: {} }, sanity, command: "temper attack run --num-examples 1" }),
  );
  const page = parse((await createReport([run])).html);
  expect([...page.querySelectorAll(".flags li")].map((flag) => flag.textContent)).toContain(
    `${run}: dropout <may> be on`,
  );
  expect(page.querySelector(".run code")!.textContent).toMatch(/^temper train .*\ntemper attack run --num-examples 1$/);
});

test("a run that is not finished or failed says so; one without attacks has no texts", async () => {
  const run = await writeRun(join(folder, "unfinished"), { finished: false });
  const page = parse((await createReport([run])).html);
  expect(page.querySelector(".run dl")!.textContent).toContain("not finished");
  expect(page.querySelectorAll("article.example, #examples, #flags")).toHaveLength(0);
});

test("evaluations that are no numbers are left out of the charts; a damaged environment is named", async () => {
  const run = await writeRun(join(folder, "diverged"), {});
  appendFileSync(join(run, "events.jsonl"), `${JSON.stringify({ step: 41, evaluation: { accuracy: Number.NaN } })}\n`);
  expect((await createReport([run])).html).toContain("at step 40");
  writeFileSync(join(run, "environment.json"), "{}");
  const { code, stderr } = await invoke(["report", run, "--out", join(folder, "damaged.html")]);
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: expect.stringContaining("environment.json: model: expected object"),
  });
});

test("bad input is named", async () => {
  expect(await invoke(["report", join(folder, "nowhere")])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("nowhere"),
  });
  const empty = temporaryFolder();
  expect(await invoke(["report", empty])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("there is no run in it"),
  });
  expect(await invoke(["report", empty, "--out", "report.pdf"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--out: expected the name of an HTML file"),
  });
});

test("temper runs lists the other runs beside damaged ones, and says what is damaged", async () => {
  const runs = join(folder, "some-damaged");
  for (const name of ["a-whole", "b-results", "c-config", "d-events", "e-torn"]) await writeRun(join(runs, name), {});
  writeFileSync(join(runs, "b-results", "results.json"), '{"format": 1,');
  writeFileSync(join(runs, "c-config", "config.yaml"), "model: [\n");
  writeFileSync(join(runs, "d-events", "events.jsonl"), '{"step": 1}\n{"step": 2, "lo\n{"step": 3}\n');
  appendFileSync(join(runs, "e-torn", "events.jsonl"), '{"step": 41, "lo');
  const reasons = [
    /b-results\/results\.json:1:\d+: /,
    /c-config\/config\.yaml:\d+:\d+: /,
    /d-events\/events\.jsonl:2: expected a line of JSON/,
  ];
  const { code, stdout } = await invoke(["runs", runs]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/a-whole +spam +standard +0 +finished/);
  expect(stdout).toMatch(/e-torn +spam +standard +0 +finished/);
  for (const name of ["b-results", "c-config", "d-events"])
    expect(stdout).toMatch(new RegExp(`${name} +damaged\\s*\\n`));
  for (const reason of reasons) expect(stdout).toMatch(reason);
  const listed = JSON.parse((await invoke(["runs", runs, "--json"])).stdout) as {
    state: string;
    failure: string | null;
  }[];
  expect(listed.map(({ state }) => state)).toEqual(["finished", "damaged", "damaged", "damaged", "finished"]);
  for (const [i, reason] of reasons.entries()) expect(listed[i + 1]!.failure).toMatch(reason);
  // Who asks for such a run itself is told why there is nothing to see.
  expect(await invoke(["analyze", "distance", join(runs, "b-results")])).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/b-results: this run is damaged: .*results\.json:1:/) as string,
  });
});

test.each([
  ["events.jsonl", "no JSON", /events\.jsonl:2: expected a line of JSON \(the run's events\), received "no JSON"/],
  ["events.jsonl", "null", /events\.jsonl:2: expected object, received null/],
  [
    "timings.jsonl",
    '{"step": 2, "sec',
    /timings\.jsonl:2: expected a line of JSON \(the run's timings\), received "\{"step": 2, "sec"/,
  ],
  ["timings.jsonl", '{"step": 2}', /timings\.jsonl:2: seconds: expected number, received nothing/],
])("a damaged line of %s (%s) is named by its place", async (file, line, message) => {
  const run = await writeRun(join(folder, "damaged-line"), {});
  writeFileSync(join(run, file), `{"step": 1, "seconds": 1}\n${line}\n{"step": 3, "seconds": 1}\n`);
  const { code, stderr } = await invoke(["report", run, "--out", join(folder, "damaged-line.html")]);
  expect(stderr).toMatch(message);
  expect(code).toBe(2);
});

test("a line that a crash has cut off at the end of events and timings is left out", async () => {
  const run = await writeRun(join(folder, "torn"), {});
  for (const file of ["events.jsonl", "timings.jsonl"]) appendFileSync(join(run, file), '{"step": 41, "se');
  expect((await readReportRuns([run]))[0]).toMatchObject({
    events: { length: 42 },
    seconds: expect.closeTo(28) as number,
  });
});

test("a table of runs names those that are not finished, and is refused where none is", async () => {
  const done = await writeRun(join(folder, "table-done"), {});
  const open = await writeRun(join(folder, "table-open"), { finished: false, seed: 1 });
  expect((await invoke(["table", done, open])).stdout).toContain(`- ${open}: not finished, left out\n`);
  expect(await invoke(["table", open])).toMatchObject({
    code: 2,
    stdout: "",
    stderr: expect.stringContaining("expected a finished run"),
  });
});
