import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseHTML } from "linkedom";
import { expect, test } from "vitest";
import { createReport, report } from "../../src/report/index.js";
import { readReportRun } from "../../src/report/report-run.js";
import { writeAttackReport } from "../../src/runs/attack-folder.js";
import { RunFolder } from "../../src/runs/run-folder.js";
import { invoke } from "../cli/invoke.js";
import { float64, matchClose } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { attackResult, writeRun } from "./run-folder.js";
import { createJournal, hostile, svg, writeSample } from "./sample.js";

const folder = temporaryFolder();
const parse = (page: string) => parseHTML(page).document;

test("temper report writes one self-contained file", async () => {
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
    ...["Comparison", "Sanity checks", "Next", "Data", "Training", "Figures", "Attacked texts", "Runs"],
  ]);
  // Every section is linked, every table has a caption, every image has a text.
  for (const link of page.querySelectorAll("nav a"))
    expect(page.querySelector(link.getAttribute("href")!)).not.toBeNull();
  for (const table of page.querySelectorAll("table")) expect(table.querySelector("caption")?.textContent).not.toBe("");
  for (const cell of page.querySelectorAll("th")) expect(["col", "row"]).toContain(cell.getAttribute("scope"));
  for (const image of page.querySelectorAll("img")) expect(image.getAttribute("alt")).not.toBe("");
  const ids = [...page.querySelectorAll("[id]")].map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
});

test("the verdict and the chart come before everything else, in at most three sentences", async () => {
  const { html } = await createReport(await writeSample(join(folder, "first")));
  const page = parse(html);
  const [heading, verdict, chart] = page.querySelector("header")!.querySelectorAll("h1, p, svg.accuracy");
  expect(heading!.tagName).toBe("H1");
  expect(verdict!.className).toBe("verdict");
  expect(verdict!.textContent!.split(/(?<=\.) (?=[A-Z])/).length).toBeLessThanOrEqual(3);
  expect(chart!.tagName.toLowerCase()).toBe("svg");
  expect(html.indexOf('class="verdict"')).toBeLessThan(html.indexOf("<nav"));
  expect(page.querySelector("#next")!.closest("section")!.textContent).toContain("temper show");
});

test("a report of a hardening uses the names of its folders and the person's file, and shows what training warned about", async () => {
  const warning = "The model has hardly learned: its loss is that of guessing.";
  const runs = [
    await writeRun(join(folder, "h", "standard"), { attacks: { pwws: createJournal(6) }, warnings: [warning] }),
    await writeRun(join(folder, "h", "robust"), { methods: ["ascc"], attacks: { pwws: createJournal(8) } }),
  ];
  writeFileSync(join(folder, "h", "harden.json"), "{}");
  const known = { verdict: "Gained a lot.", source: "mails.csv" };
  const page = parse((await createReport(runs, "Hardening mails.csv", known)).html);
  expect(page.querySelector("p.verdict")!.textContent).toBe("Gained a lot.");
  const rows = [...page.querySelectorAll("table.comparison tbody th")].map((cell) => cell.firstChild!.textContent);
  expect(rows).toEqual(["standard", "robust"]);
  expect(page.querySelector("#data")!.closest("section")!.textContent).toContain("mails.csv");
  const sanity = page.querySelector("#sanity")!.closest("section")!.textContent;
  expect(sanity).toContain(warning);
  expect(sanity).not.toContain("No problems were found");
});

test("texts of the data never become markup, and figures are images", async () => {
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
  // Every address is inside the file.
  for (const element of page.querySelectorAll("[src], [href]")) {
    expect(element.getAttribute("src") ?? element.getAttribute("href")).toMatch(/^(#|data:)/);
  }
});

test("hostile names of labels, attacks and folders are escaped", async () => {
  const run = await writeRun(join(folder, "<img src=x onerror=alert(1)>"), {
    labels: ["<b>ham</b>", "<b>spam</b>"],
    attacks: { "<i>pwws": [attackResult("<u>id", "buy it now", "success", { 1: "<s>them" })] },
  });
  const page = parse((await createReport([run])).html);
  expect(page.querySelectorAll("main i, main u, main s, main img, .probabilities b")).toHaveLength(0);
  expect(page.querySelector("article.example h3")!.textContent).toBe("<u>id");
  expect(page.querySelector("ins")!.textContent).toBe("<s>them (was it)");
});

test("an example shows the original with its replaced words, the changed text and the probabilities", async () => {
  const text = "Buy it now,  before it is gone";
  const run = await writeRun(join(folder, "diff"), {
    attacks: { pwws: [attackResult("mail", text, "success", { 0: "Purchase", 3: "ere" })] },
  });
  const card = parse((await createReport([run])).html).querySelector("article.example")!;
  expect(card.querySelector(".original .text")!.textContent).toBe(text);
  expect([...card.querySelectorAll(".original del")].map((mark) => mark.textContent)).toEqual(["Buy", "before"]);
  const ins = [...card.querySelectorAll(".version ins")].map((mark) => mark.firstChild!.textContent);
  expect(ins).toEqual(["Purchase", "ere"]);
  const cells = [...card.querySelectorAll(".gold td")].map((cell) => cell.textContent);
  expect(cells.map((cell) => cell!.replace(" ", ""))).toEqual(["93.0%", "31.0%"]);
  expect(card.getAttribute("data-kinds")).toBe("success");
});

test("long texts are shortened around their changes", async () => {
  const text = `${"word ".repeat(100)}offer ${"more ".repeat(100)}end`;
  const run = await writeRun(join(folder, "long"), {
    attacks: { pwws: [attackResult("mail", text, "success", { 100: "deal" })] },
  });
  const shown = parse((await createReport([run])).html).querySelector(".version .text")!;
  expect(shown.textContent).toContain(text.slice(-20));
  for (const { lastChild } of shown.querySelectorAll("details")) lastChild!.remove();
  expect(shown.textContent).toBe(
    `[… 88 words …] ${"word ".repeat(12)}deal (was offer) ${"more ".repeat(11)}more [… 89 words …] `,
  );
});

test("warnings and the request of the attack report are shown", async () => {
  const run = await writeRun(join(folder, "flagged"), {
    attacks: { pwws: [attackResult("mail", "buy it now", "failed")] },
  });
  const { folder: attacks, summary } = await (await RunFolder.open(run)).attacks();
  await writeAttackReport(attacks, {
    ...{ format: 3, task: "spam", labels: ["ham", "spam"], split: "test", coverage: null, ...summary! },
    sanity: [{ name: "dropout", message: "dropout <may> be on" }],
    request: { model: "run", attacks: [{ name: "pwws", options: {} }], numExamples: 1, resume: true },
  });
  const page = parse((await createReport([run])).html);
  expect([...page.querySelectorAll(".warnings li")].map((flag) => flag.textContent)).toContain(
    `${run}: dropout <may> be on`,
  );
  expect(page.querySelector(".run code")!.textContent).toMatch(
    /^temper train .*\ntemper attack run --attack pwws --num-examples 1$/,
  );
});

test("a run that is not finished says so; a run without attacks has no texts", async () => {
  const run = await writeRun(join(folder, "unfinished"), { finished: false });
  const page = parse((await createReport([run])).html);
  expect(page.querySelector(".run dl")!.textContent).toContain("not finished");
  expect(page.querySelectorAll("article.example, #examples, #sanity")).toHaveLength(0);
});

test("invalid numbers are left out of the charts; a damaged environment is reported", async () => {
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

test("errors name the input", async () => {
  expect(await invoke(["report", join(folder, "nowhere")])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("nowhere"),
  });
  const empty = temporaryFolder();
  expect(await invoke(["report", empty])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("no run found"),
  });
  expect(await invoke(["report", empty, "--out", "report.pdf"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("report: out: expected the name of an HTML file"),
  });
});

test("temper runs lists damaged runs with the reason, next to the others", async () => {
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
  expect(stdout).toMatch(/a-whole +\S+ +spam +standard +0 +finished/);
  expect(stdout).toMatch(/e-torn +\S+ +spam +standard +0 +finished/);
  for (const name of ["b-results", "c-config", "d-events"]) expect(stdout).toMatch(new RegExp(`${name} +damaged +`));
  for (const reason of reasons) expect(stdout).toMatch(reason);
  const listed = JSON.parse((await invoke(["runs", runs, "--json"])).stdout) as {
    state: string;
    failure: string | null;
  }[];
  expect(listed.map(({ state }) => state)).toEqual(["finished", "damaged", "damaged", "damaged", "finished"]);
  for (const [i, reason] of reasons.entries()) expect(listed[i + 1]!.failure).toMatch(reason);
  // Other commands report the same reason.
  expect(await invoke(["analyze", "distance", join(runs, "b-results")])).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/b-results\/results\.json:1:/) as string,
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
])("a damaged line of %s (%s) is reported with its position", async (file, line, message) => {
  const run = await writeRun(join(folder, "damaged-line"), {});
  writeFileSync(join(run, file), `{"step": 1, "seconds": 1}\n${line}\n{"step": 3, "seconds": 1}\n`);
  const { code, stderr } = await invoke(["report", run, "--out", join(folder, "damaged-line.html")]);
  expect(stderr).toMatch(message);
  expect(code).toBe(2);
});

test("an incomplete last line of events and timings is ignored", async () => {
  const run = await writeRun(join(folder, "torn"), {});
  for (const file of ["events.jsonl", "timings.jsonl"]) appendFileSync(join(run, file), '{"step": 41, "se');
  expect(await readReportRun(await RunFolder.open(run))).toMatchObject({
    events: { length: 42 },
    seconds: matchClose(28, float64),
  });
});

test("a report is a request: it has a title, counts what it contains, and rejects unknown keys", async () => {
  const runs = [await writeRun(join(folder, "request"), {})];
  const path = join(folder, "request.html");
  const result = await report({ runs, out: path, title: "My <runs>" });
  expect(result).toEqual({ path, bytes: readFileSync(path).length, runs: 1, attacks: 0, examples: 0, figures: 0 });
  expect(parse(readFileSync(path, "utf8")).querySelector("h1")!.textContent).toBe("My <runs>");
  await expect(report({ runs, titel: "x" } as never)).rejects.toThrow(/report: unknown key titel .*title/);
});

test("an unfinished attack is named and not compared", async () => {
  const results = ["a", "b"].map((id) => attackResult(id, "buy it now", "failed"));
  const run = await writeRun(join(folder, "unfinished-attack"), { attacks: { pwws: results } });
  const journal = join(run, "attacks", "pwws.jsonl");
  writeFileSync(journal, `${readFileSync(journal, "utf8").split("\n").slice(0, 2).join("\n")}\n`);
  const page = parse((await createReport([run])).html);
  const notes = [...page.querySelectorAll("[aria-labelledby=sanity] .note")].map((note) => note.textContent);
  expect(notes.join()).toContain("pwws is not finished");
  expect(page.querySelectorAll(".comparison thead th")).toHaveLength(2);
});
