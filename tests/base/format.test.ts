import { expect, test } from "vitest";
import { formatRoughDuration } from "../../src/base/format.js";

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
