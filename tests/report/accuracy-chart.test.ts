import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseHTML } from "linkedom";
import { expect, test } from "vitest";
import { renderAccuracyChart, renderAccuracyFigure } from "../../src/report/accuracy-chart.js";
import { compareGroups } from "../../src/report/comparison.js";
import { groupRuns } from "../../src/report/groups.js";
import { describeComparison, describeOneSided } from "../../src/report/headline.js";
import { readReportRun } from "../../src/report/report-run.js";
import { RunFolder } from "../../src/runs/run-folder.js";
import { temporaryFolder } from "../temporary.js";
import { createAttackResults, writeRun } from "./run-folder.js";

const folder = temporaryFolder();
let next = 0;
const hostileName = '"><img src=x>';

async function compare(journals: Readonly<Record<string, string>>) {
  const out = join(folder, String(next++));
  const runs = await Promise.all(
    Object.entries(journals).map(async ([name, letters], i) => {
      const attacks = { pwws: createAttackResults(letters) };
      const run = await writeRun(join(out, name), { methods: i > 0 ? ["ascc"] : [], attacks });
      return readReportRun(await RunFolder.open(run));
    }),
  );
  // Models of a hardening have the names of their folders.
  writeFileSync(join(out, "harden.json"), "{}");
  return compareGroups(groupRuns(runs)[0]!);
}

test("the bars are the accuracies before and under attack, and names are text", async () => {
  const rows = await compare({
    standard: `${"s".repeat(20)}${"f".repeat(16)}kkkk`,
    [hostileName]: `${"f".repeat(36)}kkkk`,
  });
  const { document } = parseHTML(`<body>${renderAccuracyChart(rows)!.text}</body>`);
  const widths = [...document.querySelectorAll("svg.accuracy rect")].map((bar) => bar.getAttribute("width"));
  // 86% of the width stand for an accuracy of 100%.
  expect(widths).toEqual([0.9, 0.4, 0.9, 0.9].map((value) => `${(86 * value).toFixed(2)}%`));
  expect(document.querySelectorAll("img")).toHaveLength(0);
  const file = renderAccuracyFigure(rows, "Two models", "A caption.");
  expect(parseHTML(file).document.querySelectorAll("svg.accuracy rect")).toHaveLength(4);
  expect(file).not.toContain("<img");
});

test("the verdict counts points in the direction of its words", async () => {
  const [weak, strong] = [`${"s".repeat(30)}${"f".repeat(10)}`, "f".repeat(40)];
  const better = await compare({ standard: weak, robust: strong });
  expect(describeComparison(better, "standard")).toMatch(
    /^Under pwws, robust is right on 100\.0% of 40 texts, standard on 25\.0%: 75\.0 points more \(95% CI \d/,
  );
  expect(describeOneSided(better, "standard")).toBe("pwws fools only standard with 30 texts, only robust with 0.");
  const worse = await compare({ strong, weak });
  expect(describeComparison(worse, "strong")).toMatch(/weak is right on 25\.0% .* 75\.0 points fewer \(95% CI \d/);
  const equal = await compare({ first: `${weak}s`, second: `${weak}f` });
  expect(describeComparison(equal, "first")).toMatch(/no significant difference: second .*, 2\.4 points \(95% CI/);
  const single = await compare({ alone: weak });
  expect(describeComparison(single, "alone")).toMatch(/^Under pwws, alone is right on 25\.0% of 40 texts \(95% CI/);
});
