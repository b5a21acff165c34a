import { expect, test } from "vitest";
import type { RunConfig } from "../../src/settings/config.js";
import { createSweepPlan, type NewSweepPlan } from "../../src/sweeps/plan.js";
import { readSweep } from "../../src/sweeps/read-sweep.js";
import type { SweepPlan } from "../../src/sweeps/schema.js";
import { createEvaluation, listWorkPhases } from "../../src/sweeps/work-item.js";

// Every value here is typed from the papers: RIFT sections 3.1, 3.2 and A.1, ROSE sections 3.3 to
// 4.2 and A.1. Lines marked with "released" are from the released code, because the paper is silent.

type Methods = readonly (readonly [string, Readonly<Record<string, unknown>>])[];
type Column = Readonly<Record<string, unknown>> & { readonly train?: object };
type CellMethods = Methods | { readonly methods: Methods; readonly train: object };

interface Sweep {
  readonly shared: Column;
  readonly columns: Readonly<Record<string, Column>>;
  /** The methods of each row, or a function of the column. A list of lists is a grid. */
  readonly rows: Readonly<Record<string, (column: string) => readonly CellMethods[]>>;
  readonly seeds: number;
  readonly rates?: readonly number[];
  readonly attacks?: "imdb" | "snli" | "both";
  readonly advglue?: boolean;
  readonly analyses?: readonly object[];
  readonly baseline?: string | readonly string[];
  readonly metrics?: readonly string[];
}

const bert = "google-bert/bert-base-uncased";
const roberta = "FacebookAI/roberta-base";
const large = "FacebookAI/roberta-large";
const one = (...methods: Methods) => [methods];
const always =
  (...methods: Methods) =>
  () => [methods];

// RIFT, A.1.
const riftShared: Column = {
  ...{ tokenization: "word", head: "mlp", pooling: "cls", precision: "fp32", inVocabSubstitutes: false },
  ...{ headInit: "uniform", caseSensitiveSubstitutes: true }, // released
  train: {
    ...{ epochs: 20, learningRate: 2e-5, weightDecay: 0, headWeightDecay: 2e-4, headLearningRate: null },
    groupByLength: false, // Lemma 1
    ...{ batchSampler: "undersampled", lrScheduler: [0.1, 0.55, 1], maxGradNorm: null }, // released
    ...{ adamEpsilon: 1e-6, adamEpsilonMode: "uncorrected" }, // released
  },
};
const evalEpochs = [12, 14, 16, 18, 20]; // released: epochs 11, 13, …, 19, counted from 0
const selected = { train: { evalEpochs, loadBestModelAtEnd: true } };
const imdb = { task: "imdb", maxLength: 300, train: { batchSize: 32 } };
const snli = { task: "snli", maxLength: 80, train: { batchSize: 120 } };
const rift = (alpha: number, more: object = {}): Methods[number] => ["rift", { alpha, tau: 0.2, ...more }];
const ascc = (beta: number): Methods[number] => ["ascc", { beta }];
const riftRows = (beta: number, lambda: number, alpha: number): Sweep["rows"] => ({
  standard: always(),
  "adv-base": always(ascc(beta)),
  "adv-ptwd": always(ascc(beta), ["ptwd", { lambda }]),
  "adv-mixout": always(ascc(beta), ["mixout", { p: 0.6 }]),
  rift: always(ascc(beta), rift(alpha)),
});
const bothModels = { bert: { model: bert }, roberta: { model: roberta } };
const merge = (...parts: readonly Column[]): Column =>
  Object.assign({}, ...parts, { train: Object.assign({}, ...parts.map(({ train }) => train)) });
const tableThreeRow = (more: object) => (column: string) =>
  one(...(column.startsWith("imdb") ? [ascc(10), rift(0.1, more)] : [ascc(5), rift(0.7, more)]));
const alphas = (onImdb: number, onSnli: number) => (column: string) =>
  one(...(column === "imdb" ? [ascc(10), rift(onImdb)] : [ascc(5), rift(onSnli)]));

// ROSE, section 3.3.
const roseShared: Column = {
  ...{ tokenization: "subword", head: "hf", maxLength: 128 },
  train: {
    ...{ epochs: 10, lrScheduler: "linear", warmupRatio: 0, weightDecay: 0.01, dropout: true },
    ...{ adamBeta1: 0.9, adamBeta2: 0.98, maxGradNorm: 1, loadBestModelAtEnd: false }, // released
    ...{ adamEpsilon: 1e-6, adamEpsilonMode: "uncorrected" }, // released
  },
};
const glue = (model: string, size: string): Record<string, Column> => ({
  [`${size}-sst2`]: { model, task: "sst2", train: { batchSize: 32 } },
  [`${size}-rte`]: { model, task: "rte", train: { batchSize: 16 } },
  [`${size}-qnli`]: { model, task: "qnli", train: { batchSize: 32 } },
  [`${size}-qqp`]: { model, task: "qqp", train: { batchSize: 32 } },
});
const baseGlue = glue(roberta, "base");
const allGlue = { ...baseGlue, ...glue(large, "large") };
const thresholds = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
const tenRates = [1e-5, 2e-5, 3e-5, 4e-5, 5e-5, 6e-5, 7e-5, 8e-5, 9e-5, 1e-4];
// The combinations that the authors published with their code: learning rate and threshold.
const published: Record<string, Record<string, readonly [number, number]>> = {
  first: {
    ...{ "base-qnli": [2e-5, 0.7], "base-qqp": [2e-5, 0.7], "base-rte": [4e-5, 0.8], "base-sst2": [2e-5, 0.6] },
    ...{ "large-qnli": [3e-5, 0.5], "large-qqp": [2e-5, 0.7], "large-rte": [1e-5, 0.8], "large-sst2": [4e-5, 0.7] },
  },
  second: {
    ...{ "base-qnli": [1e-5, 0.4], "base-qqp": [1e-4, 0.6], "base-rte": [4e-5, 0.6], "base-sst2": [1e-4, 0.3] },
    ...{ "large-qnli": [1e-5, 0.5], "large-qqp": [1e-5, 0.6], "large-rte": [2e-5, 0.5], "large-sst2": [1e-5, 0.5] },
  },
  ensemble: {
    ...{ "base-qnli": [1e-5, 0.9], "base-qqp": [5e-5, 0.75], "base-rte": [4e-5, 0.8], "base-sst2": [5e-5, 0.4] },
    ...{ "large-qnli": [1e-5, 0.3], "large-qqp": [1e-5, 0.8], "large-rte": [1e-5, 0.85], "large-sst2": [1e-5, 0.7] },
  },
};
const gammaOf = (variant: string): object => (variant === "ensemble" ? { gamma: 0.5 } : {});
const roseAt =
  (variant: string, more: object = {}, inner: Methods = []) =>
  (column: string): CellMethods[] => {
    const [learningRate, updateRatio] = published[variant]![column]!;
    const options = { variant, updateRatio, ...gammaOf(variant), ...more };
    return [{ methods: [...inner, ["rose", options]], train: { learningRate } }];
  };
const searched = (variant: string) => () =>
  thresholds.map((updateRatio): Methods => [["rose", { variant, updateRatio, ...gammaOf(variant) }]]);
const rDrop: Methods[number] = ["r-drop", { alpha: 1 }];
const gamma = (value: number) => roseAt("ensemble", { gamma: value });
// FreeLB's published settings for RoBERTa: ascent step size, steps, initial magnitude, largest norm.
const freelb = (column: string): CellMethods[] => {
  const [stepSize, steps, initMagnitude, maxNorm] = {
    sst2: [0.1, 2, 1, 0.6],
    qnli: [0.1, 2, 0.2, 0.2],
    qqp: [0.2, 2, 0.32, 0.7],
    rte: [0.06, 3, 0.16, 0.14],
  }[column.replace(/^\w+-/, "") as "sst2" | "qnli" | "qqp" | "rte"]!;
  return [[["freelb", { steps, stepSize, initMagnitude, maxNorm }]]];
};
const landscape = { kind: "landscape", options: { points: 51, range: 0.25 } };

const sweeps: Readonly<Record<string, Sweep>> = {
  "rift-table-1": {
    ...{ shared: merge(riftShared, imdb, selected), columns: bothModels, rows: riftRows(10, 0.01, 0.1) },
    ...{ seeds: 3, attacks: "imdb", metrics: ["genetic", "pwws"], baseline: "adv-base" },
  },
  "rift-table-2": {
    ...{ shared: merge(riftShared, snli, selected), columns: bothModels, rows: riftRows(5, 0.005, 0.7) },
    ...{ seeds: 3, attacks: "snli", metrics: ["genetic", "pwws"], baseline: "adv-base" },
  },
  "rift-table-3": {
    shared: merge(riftShared, selected),
    columns: {
      "imdb-bert": { ...imdb, model: bert },
      "imdb-roberta": { ...imdb, model: roberta },
      "snli-bert": { ...snli, model: bert },
      "snli-roberta": { ...snli, model: roberta },
    },
    rows: { conditional: tableThreeRow({}), unconditional: tableThreeRow({ conditional: false }) },
    ...{ seeds: 3, attacks: "both", metrics: ["genetic", "pwws"] },
  },
  "rift-table-4": {
    shared: merge(riftShared, selected, { model: bert }),
    columns: { imdb, snli },
    rows: { none: alphas(0, 0), low: alphas(0.05, 0.5), best: alphas(0.1, 0.7), high: alphas(0.3, 1) },
    ...{ seeds: 3, attacks: "both", metrics: ["accuracy", "genetic", "pwws"] },
    analyses: [{ kind: "ablation", options: { by: "rift.alpha" } }],
  },
  "rift-table-5": {
    ...{ shared: merge(riftShared, imdb, selected), columns: bothModels, rows: riftRows(10, 0.01, 0.1) },
    ...{ seeds: 3, metrics: ["accuracy"] },
  },
  "rift-table-6": {
    ...{ shared: merge(riftShared, snli, selected), columns: bothModels, rows: riftRows(5, 0.005, 0.7) },
    ...{ seeds: 3, metrics: ["accuracy"] },
  },
  "rift-fig-2": {
    shared: merge(riftShared, imdb, { model: bert, train: { loadBestModelAtEnd: false, evalEpochs: null } }),
    columns: { all: {} },
    rows: {
      standard: always(),
      ...Object.fromEntries([1, 4, 7, 10].map((beta) => [`beta-${beta}`, always(ascc(beta))])),
    },
    ...{ seeds: 1, analyses: [{ kind: "distance", options: { by: "ascc.beta" } }] },
  },
  "rift-fig-3": {
    shared: merge(riftShared, imdb, { model: bert }),
    columns: { all: {} },
    rows: {
      task: always(),
      unconditional: always(rift(0.1, { conditional: false })),
      conditional: always(rift(0.1)),
    },
    ...{ seeds: 1, analyses: [{ kind: "geometry", options: { numExamples: 500 } }] },
  },
  "rift-fig-4": {
    shared: merge(riftShared, imdb, selected, { model: bert }),
    columns: { all: {} },
    rows: Object.fromEntries(
      [1, 4, 7, 10].flatMap((beta) => [
        [`adv-base, beta ${beta}`, always(ascc(beta))],
        [`adv-ptwd, beta ${beta}`, always(ascc(beta), ["ptwd", { lambda: 0.01 }])],
        [`adv-mixout, beta ${beta}`, always(ascc(beta), ["mixout", { p: 0.6 }])],
        [`rift, beta ${beta}`, always(ascc(beta), rift(0.1))],
      ]),
    ),
    ...{ seeds: 1, attacks: "imdb", analyses: [{ kind: "tradeoff" }], metrics: ["accuracy", "genetic", "pwws"] },
  },
  "rift-clean-gain": {
    shared: merge(riftShared, imdb),
    columns: { roberta: { model: roberta } },
    ...{ rows: { standard: always(), rift: always(rift(0.1)) }, seeds: 5 },
  },
  "rose-table-1": {
    ...{ shared: roseShared, columns: allGlue, seeds: 5, rates: tenRates, advglue: true },
    rows: {
      vanilla: always(),
      "r-drop": () =>
        ["mean", "sum"].flatMap((reduction) =>
          [0.1, 0.5, 1].map((alpha): Methods => [["r-drop", { reduction, alpha }]]),
        ),
      "child-tuning": always(["child-tuning", { variant: "D", updateRatio: 0.3 }]),
      smart: () =>
        [{}, { projection: "code", mu: 0 }].flatMap((variant) =>
          [1, 3, 5].map((lambda): Methods => [["smart", { ...variant, lambda }]]),
        ),
      freelb,
      "rose-first": searched("first"),
      "rose-second": searched("second"),
      "rose-ensemble": searched("ensemble"),
    },
    baseline: ["vanilla", "r-drop", "child-tuning", "smart", "freelb"],
  },
  "rose-table-2": {
    ...{ shared: roseShared, columns: allGlue, seeds: 5, advglue: true, baseline: "r-drop" },
    rows: {
      "r-drop": () => [{ methods: [rDrop], train: { learningRate: 1e-5 } }],
      "rose-first": roseAt("first", {}, [rDrop]),
      "rose-second": roseAt("second", {}, [rDrop]),
      "rose-ensemble": roseAt("ensemble", {}, [rDrop]),
    },
  },
  "rose-table-3": {
    ...{ shared: roseShared, columns: allGlue, seeds: 5, advglue: true },
    rows: { "0.1": gamma(0.1), "0.3": gamma(0.3), "0.5": gamma(0.5), "0.7": gamma(0.7), "0.9": gamma(0.9) },
    analyses: [{ kind: "ablation", options: { by: "rose.gamma" } }],
  },
  "rose-table-4": {
    ...{ shared: roseShared, columns: baseGlue, rows: { "rose-first": roseAt("first") }, seeds: 1 },
    metrics: ["inconsistent-200", "inconsistent-600", "inconsistent-2000", "inconsistent-4000"],
    analyses: [{ kind: "consistency", options: { steps: [200, 600, 2000, 4000] } }],
  },
  "rose-fig-1": {
    shared: merge(roseShared, { model: roberta, task: "sst2" }),
    columns: { all: { train: { batchSize: 32 } } },
    rows: {
      vanilla: always(),
      overfitted: () => [{ methods: [], train: { epochs: 30, lrScheduler: "constant", weightDecay: 0 } }],
      rose: () => roseAt("ensemble")("base-sst2"),
    },
    ...{ seeds: 1, analyses: [{ ...landscape, options: { ...landscape.options, pretrained: true } }] },
  },
  "rose-fig-2": {
    ...{ shared: roseShared, columns: baseGlue, seeds: 1, analyses: [landscape] },
    rows: {
      vanilla: always(),
      "rose-first": roseAt("first"),
      "rose-second": roseAt("second"),
      "rose-ensemble": roseAt("ensemble"),
    },
  },
  "rose-fig-3": {
    shared: { model: roberta, train: { loadBestModelAtEnd: false } },
    columns: {
      lexical: { task: "msgs:control_raising_lexical_content_the" },
      length: { task: "msgs:control_raising_length" },
    },
    rows: {
      vanilla: always(),
      "rose-first": always(["rose", { variant: "first", updateRatio: 0.6 }]),
      "rose-second": always(["rose", { variant: "second", updateRatio: 0.6 }]),
      "rose-ensemble": always(["rose", { variant: "ensemble", updateRatio: 0.6, gamma: 0.5 }]),
    },
    ...{ seeds: 5, metrics: ["matthews"] },
  },
  "rose-fig-4": {
    ...{ shared: roseShared, columns: baseGlue, seeds: 1 },
    rows: { vanilla: always(), "rose-ensemble": roseAt("ensemble") },
    analyses: [{ kind: "interpolation", rows: ["rose-ensemble", "vanilla"], options: { points: 51 } }],
  },
};

/** Reads a sweep as it is run, but with one seed: the others differ in nothing else. */
async function readPlans(name: string): Promise<NewSweepPlan & { numSeeds: number }> {
  const file = `experiments/${name}.yaml`;
  const { settings } = await readSweep({ file });
  return {
    ...(await createSweepPlan(await readSweep({ file, set: ["seeds=[0]"] }))),
    numSeeds: settings.seeds.length,
  };
}

const listMethods = ({ methods }: RunConfig): unknown => methods.map(({ name, options }) => [name, options]);

/** The attacks of RIFT 3.1. */
function expectRiftAttacks(plan: SweepPlan, column: string, run: string, config: RunConfig): void {
  const { request } = createEvaluation("out", plan, run, { kind: "attack", column }, config)!;
  expect(request).toMatchObject({
    attacks: [
      { name: "genetic", options: { population: 60, iterations: 40 } },
      { name: "pwws", options: { saliencyWord: "NULL" } }, // released
    ],
    numExamples: 1000,
    sampling: "random",
    split: "test",
    maxModificationRate: null,
    queryBudget: null,
    lmConstraint: config.task === "imdb" ? "imdb_test.lm.json" : "snli_test.lm.json",
  });
}

test.each(Object.entries(sweeps))("%s has the settings of its paper in every row", async (name, expected) => {
  const { plan, configs, numSeeds } = await readPlans(name);
  const { evaluation, baseline, significance } = plan.settings;
  const common = new Map<string, RunConfig>();
  expect(numSeeds).toBe(expected.seeds);
  expect(plan.columns.map(({ id }) => id)).toEqual(Object.keys(expected.columns));
  expect(plan.rows.map(({ id }) => id).sort()).toEqual(Object.keys(expected.rows).sort());
  for (const [row, listCell] of Object.entries(expected.rows)) {
    for (const [column, settings] of Object.entries(expected.columns)) {
      const cell = plan.cells.find((each) => each.row === row && each.column === column)!;
      const combinations = (expected.rates ?? [null]).flatMap((learningRate) =>
        listCell(column).map((given) => ({
          ...("methods" in given ? given : { methods: given, train: {} }),
          rate: learningRate === null ? {} : { learningRate },
        })),
      );
      expect(cell.points, `${row}, ${column}`).toHaveLength(combinations.length);
      for (const [i, { methods, train, rate }] of combinations.entries()) {
        const [run] = cell.points[i]!.runs;
        const config = configs[run!]!;
        expect(listMethods(config), `${row}, ${column}`).toEqual(methods);
        expect(config, `${row}, ${column}`).toMatchObject(merge(expected.shared, settings, { train }, { train: rate }));
        const isRobust = methods.some(([method]) => method === "ascc");
        expect(config.train.metricForBestModel).toBe(isRobust ? "robust-accuracy" : "accuracy");
        expect(config).toMatchObject({ maxTrainSamples: null, maxTestSamples: null });
        if (expected.attacks) expectRiftAttacks(plan, column, run!, config);
        // Nothing else may differ between the methods and models that a paper compares.
        if (Object.keys(train).some((key) => key !== "learningRate")) continue;
        const compared = {
          methods: [],
          model: "",
          train: { ...config.train, learningRate: 0, metricForBestModel: "" },
        };
        const key = JSON.stringify({ ...settings, model: "" });
        common.set(key, common.get(key) ?? { ...config, ...compared });
        expect({ ...config, ...compared }, `${row}, ${column}`).toEqual(common.get(key));
      }
    }
  }
  expect(Object.keys(evaluation.attacks)).toEqual(expected.attacks ? ["genetic", "pwws"] : []);
  expect(evaluation.advglue).toBe(expected.advglue ?? false);
  if (expected.analyses) expect(evaluation.analyses).toMatchObject(expected.analyses);
  if (expected.metrics) expect(plan.metrics).toEqual(expected.metrics);
  if (expected.baseline) expect(baseline).toEqual(expected.baseline);
  if (expected.baseline && name.startsWith("rose")) expect(significance).toBe("seeds");
  if (plan.settings.select) expect(plan.settings.select).toEqual({ metric: "accuracy", on: "validation" });
  expect(listWorkPhases(plan).some(({ items }) => items.some(({ kind }) => kind === "advglue"))).toBe(
    expected.advglue ?? false,
  );
});

test("the RIFT rows of Tables 3, 4 and 5 are the runs of Tables 1 and 2", async () => {
  const listRuns = async (name: string, row: string, column: string): Promise<string[]> => {
    const { plan } = await readPlans(name);
    return plan.cells.find((cell) => cell.row === row && cell.column === column)!.points[0]!.runs;
  };
  const onImdb = await listRuns("rift-table-1", "rift", "bert");
  expect(await listRuns("rift-table-3", "conditional", "imdb-bert")).toEqual(onImdb);
  expect(await listRuns("rift-table-4", "best", "imdb")).toEqual(onImdb);
  expect(await listRuns("rift-table-5", "rift", "bert")).toEqual(onImdb);
  const onSnli = await listRuns("rift-table-2", "rift", "bert");
  expect(await listRuns("rift-table-3", "conditional", "snli-bert")).toEqual(onSnli);
  expect(await listRuns("rift-table-4", "best", "snli")).toEqual(onSnli);
  expect(await listRuns("rift-table-6", "rift", "bert")).toEqual(onSnli);
});

test("the profile published of ROSE's table 1 has the combinations that its authors published", async () => {
  const source = { file: "experiments/rose-table-1.yaml", profile: "published", set: ["seeds=[0]"] };
  const { plan, configs } = await createSweepPlan(await readSweep(source));
  expect(plan.cells).toHaveLength(8 * 8);
  for (const { row, column, points } of plan.cells.filter((cell) => cell.row.startsWith("rose-"))) {
    const [expected] = roseAt(row.slice("rose-".length))(column) as [{ methods: Methods; train: object }];
    const config = configs[points[0]!.runs[0]!]!;
    expect(listMethods(config), `${row}, ${column}`).toEqual(expected.methods);
    expect(config.train).toMatchObject({ ...expected.train, epochs: 10, batchSize: /rte/.test(column) ? 16 : 32 });
  }
});
