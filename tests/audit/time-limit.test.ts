import { expect, test } from "vitest";
import { limitTime } from "../../src/audit/time-limit.js";
import { Interrupted } from "../../src/base/errors.js";
import type { TemperEvent } from "../../src/base/events.js";

const progress: TemperEvent = { type: "progress", stage: "rank substitutes", done: 1, total: 2 };

test("work that looks at no signal ends with its next progress when the time is over", () => {
  const seen: TemperEvent[] = [];
  const { signal, onEvent } = limitTime({ onEvent: (event) => void seen.push(event) }, performance.now() - 1);
  onEvent!({ type: "warning", message: "a warning ends nothing" });
  expect(() => onEvent!(progress)).toThrow(Interrupted);
  expect(signal.aborted).toBe(true);
  expect(seen.map(({ type }) => type)).toEqual(["warning", "progress"]);
});

test("before the end, events pass", () => {
  const { signal, onEvent } = limitTime({}, Number.MAX_SAFE_INTEGER);
  expect(() => onEvent!(progress)).not.toThrow();
  expect(signal.aborted).toBe(false);
});
