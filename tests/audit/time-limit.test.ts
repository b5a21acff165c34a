import { expect, test } from "vitest";
import { createTimeLimit } from "../../src/audit/time-limit.js";
import { Interrupted } from "../../src/base/errors.js";
import type { TemperEvent } from "../../src/base/events.js";

const progress: TemperEvent = { type: "progress", stage: "rank substitutes", done: 1, total: 2 };

test("work that looks at no signal ends with its next progress when the time is over", () => {
  const seen: TemperEvent[] = [];
  const { signal, limit } = createTimeLimit(performance.now() - 1);
  const { onEvent } = limit({ onEvent: (event: TemperEvent) => void seen.push(event) });
  onEvent({ type: "warning", message: "a warning ends nothing" });
  expect(() => onEvent(progress)).toThrow(Interrupted);
  expect(signal.aborted).toBe(true);
  expect(seen.map(({ type }) => type)).toEqual(["warning", "progress"]);
});

test("before the end, events pass", () => {
  const { signal, limit } = createTimeLimit(Number.MAX_SAFE_INTEGER);
  expect(() => limit({ onEvent: (_: TemperEvent) => undefined }).onEvent(progress)).not.toThrow();
  expect(signal.aborted).toBe(false);
});
