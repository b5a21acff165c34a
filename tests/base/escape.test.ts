import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writePredictions } from "../../src/actions/predict/write-predictions.js";
import { escapeFormula, escapeHtml } from "../../src/base/escape.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();

test("cells that begin like a formula become text, and numbers stay", () => {
  for (const cell of ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"])
    expect(escapeFormula(cell)).toBe(`'${cell}`);
  for (const cell of ["-1", "+1.5", "-.5", "-3e-7", "a=1", "", "5 - 3"]) expect(escapeFormula(cell)).toBe(cell);
});

test("labels of a card are text, not HTML", () => {
  expect(escapeHtml('<script>alert("&")</script>\n# x')).toBe('&lt;script&gt;alert("&amp;")&lt;/script&gt; # x');
});

test("tables of predictions have no formulas, and keep their numbers", async () => {
  async function* predictions() {
    const row = { "=name": "=HYPERLINK(1)", points: "-3" };
    yield {
      ...{ label: "@ham", probabilities: { "@ham": 1e-7 }, truncated: false },
      input: { texts: ["=HYPERLINK(1)"], line: 1, row },
    };
  }
  for (const [extension, separator] of Object.entries({ csv: ",", tsv: "\t" })) {
    const path = join(folder, `predicted.${extension}`);
    await writePredictions(path, predictions());
    expect(readFileSync(path, "utf8").split("\n").slice(0, 2)).toEqual([
      ["'=name", "points", "predicted", "probability", "probability_@ham"].join(separator),
      ["'=HYPERLINK(1)", "-3", "'@ham", "1e-7", "1e-7"].join(separator),
    ]);
  }
});
