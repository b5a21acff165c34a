import { existsSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { compare } from "../src/actions/compare.js";
import { formatModelCard } from "../src/actions/model-card.js";
import { train as trainRun } from "../src/actions/train/train.js";
import type { AttackOutcome } from "../src/attacks/result.js";
import { computeOutcomes } from "../src/evaluation/attack-summary.js";
import { isAttackMetric } from "../src/evaluation/metric-table.js";
import { selectLargestSample } from "../src/evaluation/worst-case.js";
import { createReport } from "../src/report/index.js";
import { listRuns } from "../src/runs/list-runs.js";
import { RunFolder } from "../src/runs/run-folder.js";
import { readMetrics } from "../src/runs/run-metrics.js";
import { sortRows } from "../src/studio/page/sort-rows.js";
import { readRunRow } from "../src/studio/run-row.js";
import { tinyVictim } from "./attacks/tiny-victim.js";
import { invoke } from "./cli/invoke.js";
import { chooseExtent } from "./extent.js";
import { attackResult, writeRun } from "./report/run-folder.js";
import { temporaryFolder } from "./temporary.js";
import { tinyRun } from "./tiny-run.js";

const folder = temporaryFolder();
const reason = /it predicts spam for 1,000 of 1,000 texts/;

/** A constant model resists every attack on the texts of its class. */
async function writePair(name: string, attacks: readonly string[], count: number): Promise<[string, string]> {
  const results = (outcome: (i: number) => AttackOutcome) =>
    Object.fromEntries(
      attacks.map((attack) => [
        attack,
        Array.from({ length: count }, (_, i) => attackResult(`mail ${i}`, "buy it now", outcome(i))),
      ]),
    );
  const constant = [
    [0, 200],
    [0, 800],
  ];
  return [
    await writeRun(join(folder, name, "constant"), {
      ...{ accuracy: 0.8, confusionMatrix: constant, methods: ["ascc"], attacks: results(() => "failed") },
    }),
    await writeRun(join(folder, name, "sound"), {
      attacks: results((i) => (i % 3 === 0 ? "failed" : "success")),
    }),
  ];
}

describe("a degenerate model with the best numbers", () => {
  test("never wins, whatever the attacks and texts are", async () => {
    let index = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.subarray(["pwws", "genetic", "textfooler"], { minLength: 1 }),
        fc.integer({ min: 3, max: 30 }),
        async (attacks, count) => {
          const [constant, sound] = await writePair(`case ${index++}`, attacks, count);
          for (const runs of [
            [constant, sound],
            [sound, constant],
          ])
            for (const { better, warning, verdict } of (await compare({ runs })).comparisons) {
              expect([better, warning]).toEqual([null, expect.stringMatching(reason)]);
              expect(verdict).toMatch(/degenerate/);
            }
          const rows = await Promise.all(
            [constant, sound].map((run) => readRunRow({ id: run, name: run, folder: run })),
          );
          for (const key of ["accuracy", "worst-case", ...attacks])
            for (const isDescending of [true, false])
              expect(sortRows(rows, key, isDescending).at(-1)!.id).toBe(constant);
        },
      ),
      { numRuns: chooseExtent(1, 10) },
    );
  });

  test("is marked by runs, studio, report and model card", async () => {
    const [constant, sound] = await writePair("marked", ["pwws"], 40);
    const listed = await listRuns(join(folder, "marked"));
    expect(listed.map(({ degeneracy }) => degeneracy)).toEqual([expect.stringMatching(reason), null]);
    const { stdout } = await invoke(["runs", join(folder, "marked")]);
    expect(stdout).toMatch(/constant.* degenerate /);
    expect(stdout).toMatch(/constant is degenerate: it predicts spam/);
    const row = await readRunRow({ id: "x", name: "x", folder: constant });
    expect(row.degeneracy).toMatch(reason);
    const { html } = await createReport([constant, sound]);
    expect(html).toMatch(/Degenerate: it predicts spam/);
    // A model that has not learned its task is not proposed for use.
    expect((await createReport([constant])).html).toContain("Train longer or on more texts before anything else");
    expect(html).not.toMatch(/class="(better|wins)"/);
    const run = await RunFolder.open(constant);
    expect(await formatModelCard(run, (await run.results())!)).toMatch(/The model is degenerate: it predicts spam/);
  });
});

describe("a constant model", () => {
  let constant: string;
  let sound: string;
  let data: string[];

  beforeAll(async () => {
    vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
    const victim = await tinyVictim(join(folder, "victim"), { tokenization: "word" }, 150);
    sound = victim.run;
    const { substitutions } = victim;
    constant = join(folder, "constant", "run");
    const train = { epochs: 1, dropout: false, learningRate: 0 };
    const config = await tinyRun(join(folder, "constant"), { substitutions, tokenization: "word", train });
    await trainRun({ ...config, out: constant });
    data = ["--data", victim.data, "--text-column", "text", "--label-column", "label", "--threads", "1"];
  });

  test("is marked in the results of train, evaluate and attack, also with --quiet", async () => {
    expect((await (await RunFolder.open(constant)).results())!.test.degeneracy).not.toBeNull();
    const evaluated = await invoke(["evaluate", constant, ...data, "--quiet"]);
    expect(evaluated.stdout).toMatch(/! The model is degenerate: /);
    const json = await invoke(["evaluate", constant, ...data, "--quiet", "--json"]);
    expect((JSON.parse(json.stdout) as { degeneracy: string }).degeneracy).toMatch(/guessing|predicts/);
    const trained = await invoke(["train", "--resume", "--out", constant, "--quiet"]);
    expect(trained.stdout).toMatch(/! The model is degenerate: /);
    const attacked = await invoke(["attack", constant, ...data, "--num-examples", "20", "--quiet"]);
    expect(attacked.stdout).toMatch(/! The model is degenerate: /);
  });

  test("is marked by exact and certify, also with --quiet", async () => {
    const count = ["--num-examples", "40", "--quiet"];
    const exact = ["exact", constant, ...data, "--max-changes", "1", ...count, "--out", join(folder, "exact")];
    expect((await invoke(exact)).stdout).toMatch(/! The model is degenerate: .* Draw no conclusion from its exact acc/);
    const certify = ["certify", constant, ...data, "--kind", "windows", ...count, "--out", join(folder, "proof")];
    const { stdout } = await invoke(certify);
    expect(stdout).toMatch(/! The model is degenerate: .* conclusion from its certified acc/);
    // The claim says what it does not cover, where the number is printed.
    expect(stdout).toMatch(
      /separated from it by white space .* text that is glued to its first or last word can lower/,
    );
    const report = await invoke([...certify, "--resume", "--json"]);
    expect((JSON.parse(report.stdout) as { degeneracy: string }).degeneracy).toMatch(/guessing|predicts/);
  });

  test("fails the gate with the reason, and is no baseline", async () => {
    const limits = ["--max-drop", "100", "--num-examples", "10", "--quiet"];
    const candidate = ["gate", constant, "--baseline", sound, ...data, ...limits, "--out", join(folder, "gate")];
    const failed = await invoke(candidate);
    expect([failed.code, failed.stdout]).toEqual([1, expect.stringContaining("The candidate is degenerate: ")]);
    for (const model of [sound, constant]) {
      const lock = join(folder, "constant.lock");
      const gate = ["gate", model, "--baseline", constant, ...data, ...limits, "--lock", lock];
      const refused = await invoke([...gate, "--out", join(folder, "refused")]);
      expect(refused.code).toBe(2);
      expect(refused.stderr).toMatch(/--baseline .* is degenerate: .* Choose another baseline/);
      expect(existsSync(lock)).toBe(false);
    }
  });
});

test("numbers before the attack, under attack and of the worst case are of the same texts", async () => {
  const outcomes = fc.constantFrom<AttackOutcome>("skipped", "success", "failed");
  const texts = fc.uniqueArray(fc.integer({ min: 0, max: 12 }), { minLength: 1, maxLength: 12 });
  const journal = texts.chain((ids) =>
    fc.tuple(...ids.map((id) => outcomes.map((outcome) => ({ id: `text ${id}`, label: id % 2, outcome })))),
  );
  const target = fc.option(fc.constantFrom(0, 1), { nil: null });
  fc.assert(
    fc.property(
      fc.dictionary(fc.constantFrom("pwws", "genetic", "guard", "random"), fc.tuple(journal, target), { minKeys: 1 }),
      (attacks) => {
        const all = computeOutcomes(
          new Map(Object.entries(attacks).map(([name, [results, wanted]]) => [name, { results, target: wanted }])),
        );
        const sample = selectLargestSample(all);
        const ids = [...(all.get("clean")?.keys() ?? [])].sort();
        for (const name of sample) expect([...all.get(name)!.keys()].sort()).toEqual(ids);
        const worst = all.get("worst-case");
        expect(worst !== undefined).toBe(sample.length > 1);
        if (!worst) return;
        expect([...worst.keys()].sort()).toEqual(ids);
        for (const [id, isCorrect] of worst)
          expect(isCorrect).toBe(sample.every((name) => all.get(name)!.get(id) === true));
      },
    ),
  );
  const run = await writeRun(join(folder, "mixed"), {
    attacks: {
      guard: [attackResult("mail 0", "buy it now", "success")],
      pwws: Array.from({ length: 5 }, (_, i) => attackResult(`mail ${i}`, "buy it now", i > 2 ? "failed" : "success")),
    },
  });
  const metrics = await readMetrics(await RunFolder.open(run));
  const facts = ["clean", "pwws", "worst-case", "guard"].map((id) => [
    metrics.get(id)!.examples,
    metrics.get(id)!.isPaired,
  ]);
  expect(facts).toEqual([
    [5, true],
    [5, true],
    [5, true],
    [1, false],
  ]);
  const row = await readRunRow({ id: "x", name: "x", folder: run });
  expect(Object.keys(row.metrics).filter(isAttackMetric)).toEqual(["pwws"]);
  expect(row.metrics.pwws).toMatchObject({ examples: 5 });
});

test("a report shows the number of texts, of each model if they differ", async () => {
  const results = (count: number) => ({
    pwws: Array.from({ length: count }, (_, i) =>
      attackResult(`mail ${i}`, "buy it now", i > 2 ? "failed" : "success"),
    ),
  });
  const equal = [
    await writeRun(join(folder, "equal", "a"), { methods: ["ascc"], attacks: results(12) }),
    await writeRun(join(folder, "equal", "b"), { attacks: results(12) }),
  ];
  expect((await createReport(equal)).html).toMatch(/12 texts/);
  const other = await writeRun(join(folder, "different", "a"), { methods: ["ascc"], attacks: results(12) });
  const larger = await writeRun(join(folder, "different", "b"), { attacks: results(40) });
  const { html } = await createReport([other, larger]);
  expect(html).toMatch(/different texts/);
  expect(html).toMatch(/of 12 texts/);
  expect(html).toMatch(/of 40 texts/);
});
