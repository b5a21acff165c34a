import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { UserError } from "../../src/base/errors.js";
import { acquireLock } from "../../src/base/lock.js";
import type { Trust } from "../../src/base/trust.js";
import { countRuns, expandSweep } from "../../src/sweeps/expand.js";
import { createSweepPlan } from "../../src/sweeps/plan.js";
import { readSweep } from "../../src/sweeps/read-sweep.js";
import { planSweep, sweep } from "../../src/sweeps/run-sweep.js";
import { writeAttack } from "../attacks/write-attack.js";
import { getError, invoke } from "../cli/invoke.js";
import { testLong } from "../long.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
let number = 0;

function writeSweep(text: string): string {
  const file = join(folder, `sweep-${number++}.yaml`);
  writeFileSync(file, text);
  return file;
}

/** Writes a sweep file and reads it. */
async function read(
  text: string,
  profile: string | null = null,
  set: readonly string[] = [],
): ReturnType<typeof expandSweep> {
  return expandSweep(await readSweep({ file: writeSweep(text), profile, set }));
}

const base = `model: m
task: sst2
`;

describe("a sweep file", () => {
  it("has every combination of its grid for every row, column and seed", async () => {
    const { cells, configs, rows } = await read(`${base}seeds: [3, 4]
grid: { train.learningRate: [1e-5, 2e-5] }
select: {}
columns: { a: null, b: { task: rte, train: { batchSize: 16 } } }
rows:
  plain: null
  rose: { title: ROSE, methods: ["rose:variant=first"], grid: { methods.rose.updateRatio: [0.4, 0.6] }, columns: { b: { maxLength: 64 } } }
`);
    expect(rows).toEqual([
      { id: "plain", title: "plain" },
      { id: "rose", title: "ROSE" },
    ]);
    expect(cells.map(({ row, column, points }) => [row, column, points.length])).toEqual([
      ["plain", "a", 2],
      ["plain", "b", 2],
      ["rose", "a", 4],
      ["rose", "b", 4],
    ]);
    expect(Object.keys(configs)).toHaveLength(24);
    const point = cells[3]!.points[3]!;
    expect(point.values).toEqual({ "train.learningRate": 2e-5, "methods.rose.updateRatio": 0.6 });
    expect(configs[point.runs[1]!]).toMatchObject({
      task: "rte",
      maxLength: 64,
      seed: 4,
      methods: [{ name: "rose", options: { variant: "first", updateRatio: 0.6 } }],
      train: { batchSize: 16, learningRate: 2e-5 },
    });
  });

  it("gives a run a name that depends only on the settings that decide it", async () => {
    const name = async (text: string): Promise<string[]> => Object.keys((await read(`${base}${text}`)).configs);
    const [plain] = await name("");
    expect(plain).toMatch(/^sst2-standard-seed0-[0-9a-f]{10}$/);
    expect(await name("rows: { x: null, y: { methods: [] } }\ndevice: cpu\nthreads: 2\n")).toEqual([plain]);
    expect(await name("train: { learningRate: 1e-5 }\n")).not.toEqual([plain]);
    expect(await name("seeds: [1]\n")).not.toEqual([plain]);
  });

  it("has a row for every combination if nothing is selected", async () => {
    const { rows, cells } = await read(`${base}grid: { methods.ascc.beta: [1, 4] }\nmethods: [ascc]\n`);
    expect(rows.map(({ id }) => id)).toEqual(["beta 1", "beta 4"]);
    expect(cells.every(({ points }) => points.length === 1)).toBe(true);
  });

  it("is overridden by a profile, which removes entries by null", async () => {
    const text = `${base}maxTrainSamples: 10
grid: { train.learningRate: [1e-5, 2e-5] }
columns: { a: { maxLength: 32 }, b: null }
rows: { r: { methods: [rose], grid: { methods.rose.updateRatio: [0.1, 0.2] }, columns: { b: { maxLength: 64 } } } }
profiles:
  small: { maxTrainSamples: 5, grid: { train.learningRate: null }, columns: { b: null }, rows: { r: { grid: null } } }
`;
    expect(Object.keys((await read(text)).configs)).toHaveLength(8);
    const small = await read(text, "small");
    expect(Object.values(small.configs)).toMatchObject([{ maxTrainSamples: 5, maxLength: 32 }]);
    await expect(read(text, "smal")).rejects.toThrow(
      /--profile smal: there is no such profile \(did you mean "small"\?\)\. The profiles are small\./,
    );
  });

  it("is overridden by assignments", async () => {
    const text = `${base}maxTrainSamples: 10\ncolumns: { a: null }\nprofiles: { small: { maxTrainSamples: 5 } }\n`;
    const { configs } = await read(text, "small", ["maxTrainSamples=7", "train.epochs=0.5", "seeds=[4, 5]"]);
    expect(Object.values(configs)).toMatchObject([
      { maxTrainSamples: 7, seed: 4, train: { epochs: 0.5 } },
      { maxTrainSamples: 7, seed: 5 },
    ]);
    const { columns } = await read(text, null, ["columns.b.maxLength=32", "columns.a=null"]);
    expect(columns).toEqual([{ id: "b", title: "b" }]);
    await expect(read(text, null, ["seeds=[4, 4]"])).rejects.toThrow(
      /^--set: seeds\[1\]: expected each seed once, received 4/,
    );
    await expect(read(text, null, ["maxTrainSamples=many"])).rejects.toThrow(
      /^--set: maxTrainSamples: expected number, received "many"/,
    );
  });

  const mistakes: [text: string, message: RegExp][] = [
    ["grid: { train.learningRat: [1] }\n", /sweep-\d+\.yaml:3:9: unknown key train\.learningRat .*learningRate/],
    ["modle: x\n", /:3:1: unknown key modle \(did you mean "model"\?\)/],
    ["grid:\n  train.epochs: []\n", /:4:3: grid\.train\.epochs: expected at least one value/],
    ["grid: { train.epochs: 3 }\n", /:3:9: .*expected a list of values, received 3/],
    ["seeds: []\n", /:3:1: seeds: expected at least one seed/],
    ["seeds: [0, 3, 0]\n", /sweep-\d+\.yaml:3:15: seeds\[2\]: expected each seed once, received 0/],
    [
      "grid: { train.epochs: [1, 2] }\nselect: { metric: acuracy }\n",
      /:4:11: select\.metric: expected a metric of .*\(accuracy, .*\), received acuracy \(did you mean "accuracy"\?\)/,
    ],
    ["select: { metric: acuracy }\n", /:3:11: select\.metric: .*received acuracy/],
    [
      "grid: { train.epochs: [1, 2] }\nselect: { metric: robust-accuracy }\nrows: { a: { methods: [ascc] }, b: null }\n",
      /:4:11: select\.metric: expected a metric of row b in column all \(accuracy, .*received robust-accuracy/,
    ],
    ["select: { on: test }\n", /:3:11: select\.on: expected "validation", received "test"/],
    ["evaluation: { attacks: { pws: null } }\n", /:3:26: attack: unknown attack .*did you mean "pwws"/],
    [
      "evaluation:\n  attacks:\n    genetic:\n      populaton: 3\n",
      /:6:7: attack genetic: unknown key populaton \(did you mean "population"\?\)/,
    ],
    ["evaluation: { attacks: { ascc: { innerSteps: -1 } } }\n", /:3:34: attack ascc: innerSteps: expected/],
    [
      "evaluation: { attacks: { ./mine.js: null } }\n",
      /:3:26: \.\/mine\.js is code\. Read it, then pass --allow-code to run it\./,
    ],
    ["rows: { r: { methods: [./mine.js] } }\n", /:3:\d+: \.\/mine\.js is code/],
    ["__proto__: { polluted: 1 }\n", /__proto__ is not a key of a config/],
    ["rows: { r: { train: { __proto__: { polluted: 1 } } } }\n", /__proto__ is not a key/],
    ["title: *x\n", /[Uu]nresolved alias/],
    ["title: &a [*a]\n", /nested more than 256 levels deep/],
    [`title: ${"[".repeat(20_000)}\n`, /nested too deeply|Flow sequence|nested more than/],
    [
      `a: &a [1,1,1,1,1,1,1,1,1]\n${"bcdefghi".replace(/./g, (name, i: number) => `${name}: &${name} [${`*${"abcdefghi"[i]},`.repeat(9)}]\n`)}`,
      /Excessive alias count/,
    ],
    ["grid: { train.batchSize: [8, big] }\n", /:3:9: train\.batchSize: expected number, received "big"/],
    [
      "grid: { methods.rose.updateRatio: [0.5] }\n",
      /:3:9: methods\.rose\.updateRatio: expected methods\.NAME\.OPTION.*The methods are none/,
    ],
    [
      "methods: [rose]\ngrid: { methods.rose.updateRation: [0.5] }\n",
      /:4:9: methods\[0\] \(rose\): unknown key updateRation .*updateRatio/,
    ],
    ["rows: { r: { methods: [rosé] } }\n", /:3:\d+: methods\[0\] \(rosé\): /],
    ["rows: { a: null }\nbaseline: b\n", /:4:1: there is no row b.*The rows are a\./],
    ["columns: { a: null }\nrows: { r: { columns: { c: { maxTrainSamples: 3 } } } }\n", /there is no column c/],
    [
      "columns: { imdb: null }\nevaluation: { exact: { maxChanges: 2, columns: [imbd] } }\n",
      /:4:39: there is no column imbd \(did you mean "imdb"\?\)\. The columns are imdb\./,
    ],
    ["metrics: [pwws]\n", /metrics\[0\]: unknown metric pwws\. Use one of accuracy, /],
    ["slurm: { time: soon }\n", /slurm\.time: expected a time in Slurm's format/],
    [
      "evaluation: { analyses: [{ kind: distanse }] }\n",
      /:3:28: evaluation\.analyses\[0\]\.kind: expected one of "distance"/,
    ],
    [
      "evaluation: { options: { substitutons: wordnet } }\n",
      /:3:26: unknown key evaluation\.options\.substitutons \(did you mean "substitutions"\?\)/,
    ],
    ["evaluation: { options: { model: x } }\n", /:3:26: unknown key evaluation\.options\.model/],
    [
      "evaluation: { options: { queryBudget: none } }\n",
      /:3:26: evaluation\.options\.queryBudget: expected number, received "none"/,
    ],
    [
      "evaluation:\n  analyses:\n    - { kind: tradeoff }\n    - { kind: distance, options: { foo: 1 } }\n",
      /:6:36: distance: unknown key foo.*png/,
    ],
    [
      "artifacts: { models: none }\nevaluation: { analyses: [{ kind: tradeoff }] }\n",
      /:3:14: analyses need the models\. Use selected instead of none\./,
    ],
    ["evaluation: { analyses: [{ kind: ablation }] }\n", /:3:26: ablation: by: expected string, received nothing/],
  ];
  const named = mistakes.map(([text, message]) => [text.slice(0, 80).trim(), text, message] as const);
  it.each(named)("reports the place of a mistake: %s", async (_, text, message) => {
    await expect(read(base + text)).rejects.toThrow(message);
    await expect(read(base + text)).rejects.toThrow(UserError);
  });

  it("is checked before anything is written", async () => {
    const [file, out] = [writeSweep(`${base}evaluation: { options: { cache: 5 } }\n`), join(folder, "never")];
    const message = await getError(["sweep", file, "--out", out, "--no-estimate"]);
    expect(message).toMatch(/:3:26: evaluation\.options\.cache: expected boolean, received 5/);
    expect(existsSync(out)).toBe(false);
  });

  it("selects by a metric of the methods if all combinations have it", async () => {
    const text = `${base}grid: { train.epochs: [1, 2] }\nselect: { metric: robust-accuracy }\nmethods: [ascc]\n`;
    expect((await read(text)).cells).toMatchObject([{ points: [{}, {}] }]);
    // A row with one combination selects nothing.
    expect(
      (await read(`${text}rows: { a: null, b: { methods: [], grid: { train.epochs: [1] } } }\n`)).cells,
    ).toHaveLength(2);
  });

  it("accepts a custom attack by its path, and its metric has the attack's name", async () => {
    writeAttack(join(folder, "mine.mjs"), "return problem.original.text;");
    const text = `${base}evaluation: { attacks: { ./mine.mjs: null } }\n`;
    const readMetrics = async (file: string, trust: Trust): Promise<string[]> =>
      (await expandSweep(await readSweep({ file, trust }))).metrics;
    expect(await readMetrics(writeSweep(text), "user")).toEqual(["accuracy", "mine"]);
    const named = writeSweep(`${text}metrics: [mine]\n`);
    for (const trust of ["user", "none"] as const) expect(await readMetrics(named, trust)).toEqual(["mine"]);
    const unknown = writeSweep(`${text}metrics: [yours]\n`);
    await expect(readMetrics(unknown, "user")).rejects.toThrow(
      /metrics\[0\]: unknown metric yours\. Use one of .*mine\./,
    );
  });

  it("shows the metrics that the evaluation adds", async () => {
    const evaluation =
      "evaluation: { advglue: true, attacks: { pwws: null, greedy: null }, analyses: [{ kind: consistency }] }\n";
    expect((await read(base + evaluation)).metrics).toEqual(["accuracy", "advglue", "pwws", "greedy"]);
    const named = ["drop", "worst-case", "inconsistent-4000", "log-loss"];
    expect((await read(`${base + evaluation}metrics: [${named}]\n`)).metrics).toEqual(named);
  });

  it("with more than 1,000 runs starts only with --yes", async () => {
    const list = (count: number): string => `[${Array.from({ length: count }, (_, i) => i + 1)}]`;
    const file = writeSweep(`${base}seeds: ${list(51)}\ngrid: { train.epochs: ${list(20)} }\n`);
    expect(countRuns(await readSweep({ file }))).toBe(1020);
    const out = join(folder, "many");
    expect(await getError(["sweep", file, "--out", out])).toMatch(
      /this sweep has 1,020 runs, more than 1,000\. Check it with --dry-run, then pass --yes\./,
    );
    expect(Object.keys((await createSweepPlan(await readSweep({ file }))).configs)).toHaveLength(1020);
  });

  it("is printed by --dry-run", async () => {
    const file = writeSweep(`${base}title: A dry one\nseeds: [0, 1, 2]\nevaluation: { advglue: true }\n`);
    const { code, stdout } = await invoke(["sweep", file, "--dry-run", "--no-estimate"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/A dry one[\s\S]*all +all +1 +3[\s\S]*runs +3\nthen +3 evaluations of selected runs/);
    const json = await invoke(["sweep", file, "--dry-run", "--no-estimate", "--json", "--out", join(folder, "dry")]);
    expect(JSON.parse(json.stdout)).toMatchObject({ unfinished: 3, estimate: null, metrics: ["accuracy", "advglue"] });
  });
});

describe("the files of the documentation", () => {
  const files = ["docs/guide/sweeps.md", "docs/guide/tutorial.md"].flatMap((document) =>
    [...readFileSync(document, "utf8").matchAll(/```yaml\n(title: .*?)```/gs)].map(([, text]) => ({
      document,
      text: text!,
    })),
  );

  it("are complete sweeps", async () => {
    expect(files.map(({ document }) => document)).toEqual([
      ...new Array(4).fill("docs/guide/sweeps.md"),
      "docs/guide/tutorial.md",
    ]);
    const runs = await Promise.all(files.map(async ({ text }) => Object.values((await read(text)).configs)));
    expect(runs.map(({ length }) => length)).toEqual([9, 18, 20, 4, 6]);
    for (const config of runs.flat()) expect(config.data ?? config.task).toBeTruthy();
    expect(runs[0]!.at(-1)!.methods.map(({ name }) => name)).toEqual(["ascc", "rift"]);
  });

  it("have a profile that removes a column and its average", async () => {
    const { configs, columns } = await read(files[2]!.text, "quick");
    expect(Object.keys(configs)).toHaveLength(2);
    expect(columns.map(({ id }) => id)).toEqual(["films"]);
  });
});

describe("code in a sweep file", () => {
  it.each([
    ["list", "[./list/method.mjs]"],
    ["one", "./one/method.mjs"],
  ])("is not executed by a dry run or without --allow-code (%s)", async (code, methods) => {
    const text = `${base}substitutions: wordnet\nrows: { r: { methods: ${methods} } }\nevaluation: { attacks: { ./${code}/attack.mjs: null } }\n`;
    const trace = join(folder, `${code}-executed`);
    mkdirSync(join(folder, code), { recursive: true });
    const leaveTrace = `import { appendFileSync } from "node:fs";\nappendFileSync(${JSON.stringify(trace)}, "x");\n`;
    writeAttack(join(folder, code, "attack.mjs"), "return problem.original.text;", leaveTrace);
    const options = "{ safeParse: (data) => ({ success: true, data }) }";
    writeFileSync(
      join(folder, code, "method.mjs"),
      `${leaveTrace}export default { name: "mine", options: ${options}, create() {} };\n`,
    );
    const file = writeSweep(text);
    const { configs } = await planSweep({ file });
    expect(Object.values(configs)[0]!.methods).toMatchObject([{ name: join(folder, code, "method.mjs") }]);
    const dry = await invoke(["sweep", file, "--dry-run", "--allow-code"]);
    expect(dry).toMatchObject({ code: 0, stderr: `estimate: checks ${file}\n` });
    expect(await getError(["sweep", file])).toContain("--allow-code");
    // Without the attack, the method alone is refused.
    const alone = writeSweep(text.replace(/evaluation.*/, ""));
    expect(await getError(["sweep", alone])).toContain("--allow-code");
    expect(await invoke(["sweep", alone, "--dry-run"])).toMatchObject({ code: 0 });
    expect(existsSync(trace)).toBe(false);
    const sweep = await readSweep({ file, trust: "user" });
    expect(Object.keys(sweep.settings.evaluation.attacks)).toEqual([join(folder, code, "attack.mjs")]);
    expect(Object.keys((await expandSweep(sweep)).configs)).toHaveLength(1);
    expect(readFileSync(trace, "utf8")).toBe("xx");
  });
});

describe("large sweeps", () => {
  it("a sweep of 10^9 runs is refused by a dry run, too", async () => {
    const keys = ["epochs", "learningRate", "weightDecay", "warmupRatio", "adamBeta1", "adamBeta2", "maxGradNorm"];
    const values = "[.1,.2,.3,.4,.5,.6,.7,.8,.9,1]";
    const file = writeSweep(`${base}grid: { ${keys.map((key) => `train.${key}: ${values}`).join(", ")} }\n`);
    for (const flags of [["--dry-run"], ["--yes"]])
      expect(await getError(["sweep", file, ...flags])).toMatch(/this sweep has 10,000,000 runs, more than 20,000/);
  });

  testLong("130,000 values and seeds do not exhaust the stack", async () => {
    const list = `[${Array.from({ length: 130_000 }, (_, i) => i).join(",")}]`;
    const sweep = await readSweep({ file: writeSweep(`${base}grid: { train.batchSize: ${list} }\nseeds: ${list}\n`) });
    expect(countRuns(sweep)).toBe(1.69e10);
  });

  it("the plan of a running sweep is not overwritten", async () => {
    const out = join(folder, "locked");
    mkdirSync(out);
    const release = acquireLock(join(out, "sweep.lock"));
    const second = sweep({ file: writeSweep(base), out, resume: true, estimate: false });
    await expect(second).rejects.toThrow(/process \d+ is writing there/);
    release();
    expect(existsSync(join(out, "sweep.json"))).toBe(false);
  });
});

describe("--set", () => {
  it("finds keys with dots: rows, and the keys of a grid", async () => {
    const text = `model: m
task: sst2
rows: { plain: null, ptwd-0.3: { methods: [{ ptwd: { lambda: 0.3 } }] }, ptwd-0: { methods: ptwd } }
grid: { train.learningRate: [1e-5, 2e-5] }
select: { metric: accuracy }
`;
    const { rows, cells, configs } = await read(text, null, [
      "rows.ptwd-0=null",
      "rows.ptwd-0.3.seed=7",
      "rows.ptwd-0.3.train.epochs=2",
      "grid.train.learningRate=[3e-5]",
    ]);
    expect(rows.map(({ id }) => id)).toEqual(["plain", "ptwd-0.3"]);
    expect(cells.map(({ points }) => points.map(({ values }) => values))).toEqual(
      new Array(2).fill([{ "train.learningRate": 3e-5 }]),
    );
    expect(Object.values(configs).map(({ train }) => [train.learningRate, train.epochs])).toEqual([
      [3e-5, 3],
      [3e-5, 2],
    ]);
    const without = await read(text, null, ["rows.ptwd-0.3=null"]);
    expect(without.rows.map(({ id }) => id)).toEqual(["plain", "ptwd-0"]);
  });

  it.each([
    "__proto__.polluted=1",
    "train.__proto__.polluted=1",
    "constructor.prototype.polluted=1",
    "a={__proto__: {polluted: 1}}",
  ])("%s does not change the prototype of all objects", async (assignment) => {
    for (const command of [
      ["sweep", writeSweep(base), "--dry-run"],
      ["train", "--model", "m"],
    ])
      expect(await getError([...command, "--set", assignment])).toMatch(/is not a key of a config/);
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });
});
