import { existsSync } from "node:fs";
import { join } from "node:path";
import {
  type AttackReference,
  type AttackRequest,
  attack,
  compare,
  evaluate,
  harden,
  loadClassifier,
  type MethodReference,
  type Run,
  type RunConfigInput,
  type TaskReference,
  train,
  verify,
} from "temper-nlp";
import { ascc } from "temper-nlp/methods";
import { describe, expect, test } from "vitest";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";

const folder = temporaryFolder();
const base: RunConfigInput = { model: "m", task: "sst2" };

/** Each call has a misspelled option. The compiler rejects it, and so does the program. */
describe("a misspelled option fails to compile, and from JavaScript the error names it", () => {
  test("options of methods", () => {
    // @ts-expect-error The option is called beta.
    expect(() => ascc({ betta: 4 })).toThrow(/ascc: unknown key betta \(did you mean "beta"\?\)/);
    // @ts-expect-error The value is a number.
    expect(() => ascc({ beta: "4" })).toThrow(/beta: expected number, received "4"/);
  });

  test("settings of a run", async () => {
    // @ts-expect-error The key is called model.
    await expect(train({ modle: "m", task: "sst2" })).rejects.toThrow(/unknown key modle \(did you mean "model"\?\)/);
    // @ts-expect-error The key is called epochs.
    await expect(train({ ...base, train: { epoch: 2 } })).rejects.toThrow(
      /unknown key train\.epoch \(did you mean "epochs"\?\)/,
    );
    // @ts-expect-error The key is called methods.
    await expect(train({ ...base, method: ["rose"] })).rejects.toThrow(
      /unknown key method \(did you mean "methods"\?\)/,
    );
    // @ts-expect-error There is no such tokenization.
    await expect(train({ ...base, tokenization: "words" })).rejects.toThrow(/tokenization: .* received "words"/);
    const out = join(folder, "unused");
    // @ts-expect-error Examples have a text and a label.
    await expect(train({ model: "m", data: [{ txt: "a", label: "b" }], out })).rejects.toThrow(/data.*text/s);
    await expect(train({ ...base, data: [{ text: "a", label: "b" }], out })).rejects.toThrow(/task/);
    expect(existsSync(out)).toBe(false);
    // @ts-expect-error The option is called resume.
    await expect(train({ ...base, resum: true })).rejects.toThrow(/unknown key resum/);
  });

  test("requests", async () => {
    // @ts-expect-error The key is called numExamples.
    const request: AttackRequest = { model: "m", numExample: 3 };
    await expect(attack(request)).rejects.toThrow(/attack: unknown key numExample \(did you mean "numExamples"\?\)/);
    // @ts-expect-error The key is called maxSamples.
    await expect(evaluate({ model: "m", limit: 3 })).rejects.toThrow(
      /unknown key limit; expected one of model, .*maxSamples/,
    );
    // @ts-expect-error The key is called journals.
    await expect(verify({ model: "m", journal: [] })).rejects.toThrow(
      /unknown key journal \(did you mean "journals"\?\)/,
    );
    // @ts-expect-error The key is called seed.
    await expect(compare({ runs: ["a", "b"], sead: 1 })).rejects.toThrow(/unknown key sead \(did you mean "seed"\?\)/);
    // @ts-expect-error The key is called device.
    await expect(loadClassifier("m", { devise: "cpu" })).rejects.toThrow(
      /unknown key devise \(did you mean "device"\?\)/,
    );
  });

  test("names of tasks, methods and attacks, but not those of modules and of the hub", async () => {
    // @ts-expect-error The task is called sst2.
    await expect(train({ model: "m", task: "sst3" })).rejects.toThrow(/Unknown task "sst3" \(did you mean "sst2"\?\)/);
    // @ts-expect-error The method is called rose.
    await expect(train({ ...base, methods: ["rosee"] })).rejects.toThrow(/unknown method \(did you mean "rose"\?\)/);
    // @ts-expect-error Methods are a list.
    await expect(train({ ...base, methods: "rosee" })).rejects.toThrow(/unknown method \(did you mean "rose"\?\)/);
    // @ts-expect-error The method is called ascc.
    await expect(harden({ data: "x.csv", method: "asccc" })).rejects.toThrow(/did you mean "ascc"/);
    // @ts-expect-error The attack is called textfooler.
    await expect(harden({ data: "x.csv", attacks: ["textfoler"] })).rejects.toThrow(/did you mean "textfooler"/);
    const tasks: TaskReference[] = ["sst2@v1", "hf:owner/name", "msgs:control_raising_length", "advglue:rte"];
    const methods: MethodReference[] = ["rift:alpha=0.1", "./mine.js", "standard"];
    const attacks: AttackReference[] = ["genetic:population=20", "./mine.mjs:samples=5"];
    expect([tasks, methods, attacks].map((names) => names.length)).toEqual([4, 3, 2]);
  });

  test("options of a run's methods", async () => {
    const run: Run = await train({ ...(await tinyRun(folder)), out: join(folder, "run") });
    // @ts-expect-error The attack is called pwws.
    await expect(run.attack("pwss", { numExamples: 3 })).rejects.toThrow(/did you mean "pwws"/);
    // @ts-expect-error The option is called numExamples.
    await expect(run.attack("pwws", { numExample: 3 })).rejects.toThrow(/unknown key numExample/);
    // @ts-expect-error The option is called split.
    await expect(run.evaluate({ splt: "test" })).rejects.toThrow(/unknown key splt \(did you mean "split"\?\)/);
    // @ts-expect-error The option is called threads.
    await expect(run.loadModel({ thread: 1 })).rejects.toThrow(/unknown key thread \(did you mean "threads"\?\)/);
  });
});
