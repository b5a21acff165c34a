import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, test } from "vitest";
import { writePredictions } from "../../src/actions/predict/write-predictions.js";
import { didYouMean, findNearMatch } from "../../src/base/did-you-mean.js";
import { escapeFormula, escapeHtml } from "../../src/base/escape.js";
import { formatRoughDuration } from "../../src/base/format.js";
import { temporaryFolder } from "../temporary.js";

test.each([
  [0.2, "1 s"],
  [40.4, "40 s"],
  [89, "89 s"],
  [91, "2 min"],
  [59 * 60, "59 min"],
  [3599, "1 h"],
  [12_100, "3 h 20 min"],
  [3 * 3600 + 100, "3 h"],
  [35_900, "10 h"],
  [47 * 3600, "47 h"],
  [48 * 3600, "2 d"],
  [102 * 3600 + 600, "4 d 6 h"],
])("%d seconds are about %s", (seconds, text) => {
  expect(formatRoughDuration(seconds)).toBe(text);
});

it("suggests the closest name, or nothing if no name is close", () => {
  const names = ["train", "evaluate", "predict", "learningRate"];
  expect(findNearMatch("trian", names)).toBe("train");
  expect(findNearMatch("learning-rate", names)).toBe("learningRate");
  expect(findNearMatch("Predikt", names)).toBe("predict");
  expect(findNearMatch("zebra", names)).toBeUndefined();
  expect(findNearMatch("x", names)).toBeUndefined();
  expect(findNearMatch("review", ["Customer, Name", "Review Text"])).toBe("Review Text");
  expect(didYouMean("evaluat", names)).toBe(' (did you mean "evaluate"?)');
  expect(didYouMean("zebra", names)).toBe("");
});

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
