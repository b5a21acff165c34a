import { join } from "node:path";
import { expect, test } from "vitest";
import { type RunConfig, runConfigSchema } from "../../src/runs/config.js";
import { formatCommandLine } from "../../src/shell.js";
import { createEvaluationCommands, createFigureCommands } from "../../src/sweeps/evaluation-commands.js";
import { sweepSettingsSchema } from "../../src/sweeps/schema.js";

const config: RunConfig = runConfigSchema.parse({ model: "m", task: "sst2" });
const then = (given: object) => sweepSettingsSchema.shape.evaluation.parse(given);

test("a report of other examples, attacks or options is not the one that a sweep wants", () => {
  const attacksOf = (given: object) =>
    createEvaluationCommands("run", config, then(given)).find(({ name }) => name === "attacks")!;
  const wanted = attacksOf({ examples: 100, attacks: { pwws: {}, genetic: { population: 8 } } });
  const reportOf = (step: typeof wanted): unknown => ({ command: formatCommandLine(["temper", ...step.argv]) });
  expect(wanted.isComplete!(reportOf(wanted))).toBe(true);
  const elsewhere = { ...config, device: "cpu", threads: 3 };
  const again = createEvaluationCommands(
    "run",
    elsewhere,
    then({ examples: 100, attacks: { pwws: {}, genetic: { population: 8 } } }),
  );
  expect(wanted.isComplete!(reportOf(again[0]!))).toBe(true);
  for (const other of [
    { examples: 1000, attacks: { pwws: {}, genetic: { population: 8 } } },
    { examples: 10, attacks: { pwws: {}, genetic: { population: 8 } } },
    { examples: 100, seed: 1, attacks: { pwws: {}, genetic: { population: 8 } } },
    { examples: 100, attacks: { pwws: {}, genetic: { population: 9 } } },
    { examples: 100, attacks: { pwws: {} } },
  ])
    expect(wanted.isComplete!(reportOf(attacksOf(other))), JSON.stringify(other)).toBe(false);
  expect(wanted.isComplete!({ attacks: { pwws: {}, genetic: {} } })).toBe(false);
});

test("analyses of one kind that begin with the same run have an output each", () => {
  const [analysis] = then({ analyses: [{ kind: "interpolation" }] }).analyses;
  const outputs = [0, 1].flatMap((before) =>
    createFigureCommands(analysis!, ["a", "b"], before).map(({ output }) => output),
  );
  expect(outputs).toEqual([
    join("a", "analysis", "interpolation.json"),
    join("a", "analysis", "2", "interpolation.json"),
  ]);
});
