import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { UserError } from "../../src/errors.js";
import { countRuns, type ExpandedSweep, expandSweep } from "../../src/sweeps/expand.js";
import { createSweepPlan } from "../../src/sweeps/plan.js";
import { readSweep } from "../../src/sweeps/read-sweep.js";
import { invoke } from "../cli/invoke.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
let number = 0;

/** Writes a sweep file of these lines and reads it. */
async function read(text: string, profile: string | null = null, set: readonly string[] = []): Promise<ExpandedSweep> {
  const file = join(folder, `sweep-${number++}.yaml`);
  writeFileSync(file, text);
  return expandSweep(await readSweep(file, profile, set));
}

const base = `model: m
task: sst2
`;

describe("a sweep file", () => {
  it("is a run, with every combination of its grid for every row, column and seed", async () => {
    const { cells, runs, rows } = await read(`${base}seeds: [3, 4]
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
    expect(runs.size).toBe(24);
    const point = cells[3]!.points[3]!;
    expect(point.values).toEqual({ "train.learningRate": 2e-5, "methods.rose.updateRatio": 0.6 });
    expect(runs.get(point.runs[1]!)).toMatchObject({
      task: "rte",
      maxLength: 64,
      seed: 4,
      methods: [{ rose: { variant: "first", updateRatio: 0.6 } }],
      train: { batchSize: 16, learningRate: 2e-5 },
    });
  });

  it("gives a run the same name wherever it stands, and another one where anything that decides it differs", async () => {
    const name = async (text: string): Promise<string[]> => [...(await read(`${base}${text}`)).runs.keys()];
    const [plain] = await name("");
    expect(plain).toMatch(/^sst2-standard-seed0-[0-9a-f]{10}$/);
    expect(await name("rows: { x: null, y: { methods: [] } }\ndevice: cpu\nthreads: 2\n")).toEqual([plain]);
    expect(await name("train: { learningRate: 1e-5 }\n")).not.toEqual([plain]);
    expect(await name("seeds: [1]\n")).not.toEqual([plain]);
  });

  it("makes a row of every combination where nothing is selected", async () => {
    const { rows, cells } = await read(`${base}grid: { method.ascc.beta: [1, 4] }\nmethod: [ascc]\n`);
    expect(rows.map(({ id }) => id)).toEqual(["beta 1", "beta 4"]);
    expect(cells.every(({ points }) => points.length === 1)).toBe(true);
  });

  it("takes a profile's settings over its own, and leaves out what the profile names with null", async () => {
    const text = `${base}maxTrainSamples: 10
grid: { train.learningRate: [1e-5, 2e-5] }
columns: { a: { maxLength: 32 }, b: null }
rows: { r: { methods: [rose], grid: { methods.rose.updateRatio: [0.1, 0.2] }, columns: { b: { maxLength: 64 } } } }
profiles:
  small: { maxTrainSamples: 5, grid: { train.learningRate: null }, columns: { b: null }, rows: { r: { grid: null } } }
`;
    expect((await read(text)).runs.size).toBe(8);
    const small = await read(text, "small");
    expect([...small.runs.values()]).toMatchObject([{ maxTrainSamples: 5, maxLength: 32 }]);
    await expect(read(text, "smal")).rejects.toThrow(
      /--profile smal: there is no such profile \(did you mean "small"\?\); it has small/,
    );
  });

  it("takes assignments of the command line over all", async () => {
    const text = `${base}maxTrainSamples: 10\ncolumns: { a: null }\nprofiles: { small: { maxTrainSamples: 5 } }\n`;
    const { runs } = await read(text, "small", ["limit=7", "train.epochs=0.5", "seeds=[4, 5]"]);
    expect([...runs.values()]).toMatchObject([
      { maxTrainSamples: 7, seed: 4, train: { epochs: 0.5 } },
      { maxTrainSamples: 7, seed: 5 },
    ]);
    await expect(read(text, null, ["seeds=[4, 4]"])).rejects.toThrow(
      /^--set: seeds\[1\]: expected every seed once, received 4/,
    );
    await expect(read(text, null, ["limit=many"])).rejects.toThrow(/^--set: limit: expected number, received "many"/);
  });

  const mistakes: [string, string, RegExp][] = [
    [
      "an unknown key of a grid",
      "grid: { train.learningRat: [1] }\n",
      /sweep-\d+\.yaml:3:9: unknown key train\.learningRat .*learningRate/,
    ],
    ["an unknown key", "modle: x\n", /3:1: unknown key modle \(did you mean "model"\?\)/],
    ["an empty list", "grid:\n  train.epochs: []\n", /:4:3: grid\.train\.epochs: expected at least one value/],
    ["no list at all", "grid: { train.epochs: 3 }\n", /:3:9: .*expected a list of values, received 3/],
    ["no seeds", "seeds: []\n", /:3:1: seeds: expected at least one seed/],
    [
      "a seed that is there twice",
      "seeds: [0, 3, 0]\n",
      /sweep-\d+\.yaml:3:15: seeds\[2\]: expected every seed once, received 0/,
    ],
    [
      "a metric that is none",
      "grid: { train.epochs: [1, 2] }\nselect: { metric: acuracy }\n",
      /:4:11: select\.metric: expected one of .*\(accuracy, .*\), received acuracy \(did you mean "accuracy"\?\)/,
    ],
    [
      "a metric that is none, with nothing to select",
      "select: { metric: acuracy }\n",
      /:3:11: select\.metric: .*received acuracy/,
    ],
    [
      "a metric that one row's methods lack",
      "grid: { train.epochs: [1, 2] }\nselect: { metric: robust-accuracy }\nrows: { a: { methods: [ascc] }, b: null }\n",
      /:4:11: select\.metric: expected one of those that row b in column all has \(accuracy, .*received robust-accuracy/,
    ],
    [
      "an attack that is none",
      "then: { attacks: { pws: null } }\n",
      /:3:20: attack: expected one of pwws.*did you mean "pwws"/,
    ],
    [
      "an option that an attack lacks",
      "then:\n  attacks:\n    genetic:\n      populaton: 3\n",
      /:6:7: attack genetic: unknown key populaton \(did you mean "population"\?\)/,
    ],
    [
      "an option of ascc that is none",
      "then: { attacks: { ascc: { innerSteps: -1 } } }\n",
      /:3:28: attack ascc: steps: expected/,
    ],
    [
      "a search of one's own that is not there",
      "then: { attacks: { ./mine.js: null } }\n",
      /:3:20: attack \.\/mine\.js: cannot load it/,
    ],
    [
      "a value that is none",
      "grid: { train.batchSize: [8, big] }\n",
      /:3:9: train\.batchSize: expected number, received "big"/,
    ],
    [
      "a method that is not in the list",
      "grid: { methods.rose.updateRatio: [0.5] }\n",
      /:3:9: method\.rose\.keep: expected method\.NAME\.OPTION.*which has none/,
    ],
    [
      "an option that a method lacks",
      "methods: [rose]\ngrid: { method.rose.kepe: [0.5] }\n",
      /:4:9: method\[0\] \(rose\): unknown key kepe.*updateRatio/,
    ],
    [
      "a method that is none",
      "rows: { r: { methods: [rosé] } }\n",
      /:3:\d+: method\[0\] \(rosé\): there is no such method/,
    ],
    ["a baseline that is no row", "rows: { a: null }\nbaseline: b\n", /:4:1: there is no row b.*the rows are a/],
    [
      "a column that is none",
      "columns: { a: null }\nrows: { r: { columns: { c: { maxTrainSamples: 3 } } } }\n",
      /there is no column c/,
    ],
    ["a measure that nothing gives", "measures: [pwws]\n", /measures\[0\]: expected one of accuracy, .*received pwws/],
    ["a time that Slurm does not know", "slurm: { time: soon }\n", /slurm\.time: expected a time as Slurm writes it/],
    [
      "an analysis that is none",
      "then: { analyses: [{ kind: distanse }] }\n",
      /then\.analyses\[0\]\.kind: expected one of "distance"/,
    ],
  ];
  it.each(mistakes)("names the place of %s", async (_, text, message) => {
    await expect(read(base + text)).rejects.toThrow(message);
    await expect(read(base + text)).rejects.toThrow(UserError);
  });

  it("selects by what methods measure, where all that it selects among have them", async () => {
    const text = `${base}grid: { train.epochs: [1, 2] }\nselect: { metric: robust-accuracy }\nmethod: [ascc]\n`;
    expect((await read(text)).cells).toMatchObject([{ points: [{}, {}] }]);
    // A row of one combination has nothing to select.
    expect(
      (await read(`${text}rows: { a: null, b: { methods: [], grid: { train.epochs: [1] } } }\n`)).cells,
    ).toHaveLength(2);
  });

  it("takes a search of one's own by its path", async () => {
    const search = join(folder, "mine.mjs");
    writeFileSync(search, "export default function* () {}");
    expect((await read(`${base}then: { attacks: { ${search}: null } }\n`)).measures).toEqual(["accuracy", search]);
  });

  const flags: [string, string, RegExp][] = [
    [
      "an option that temper attack lacks",
      "then: { options: { substitutons: wordnet } }\n",
      /flags\.yaml:3:20: substitutons: temper attack has no such option \(did you mean "substitutions"\?\); it has attack, substitutions,/,
    ],
    [
      "a value that temper attack refuses",
      "then: { options: { budget: none } }\n",
      /:3:20: budget: received none\. Expected a whole number from 1/,
    ],
    ["a switch with a value", "then: { options: { csv: 5 } }\n", /:3:20: csv: expected true or false, received 5/],
    [
      "an option without its value",
      "then: { options: { budget: true } }\n",
      /:3:20: budget: expected a value \(--query-budget <queries>\)/,
    ],
    [
      "an option that an analysis lacks",
      "then:\n  analyses:\n    - { kind: tradeoff }\n    - { kind: distance, options: { foo: 1 } }\n",
      /:6:36: foo: distance has no such option; it has out, png, /,
    ],
    [
      "an option that an analysis needs",
      "then: { analyses: [{ kind: ablation }] }\n",
      /:3:20: ablation needs --by <option> \(.*write options: \{ by: … \}/,
    ],
  ];
  it.each(flags)("names the place of %s before anything runs", async (_, text, message) => {
    const [file, out] = [join(folder, "flags.yaml"), join(folder, "flags")];
    writeFileSync(file, base + text);
    const { code, stderr } = await invoke(["sweep", file, "--out", out, "--no-estimate"]);
    expect(stderr).toMatch(message);
    expect(code).toBe(2);
    expect(existsSync(out)).toBe(false);
  });

  it("is not started with more than 1,000 runs unless one insists", async () => {
    const file = join(folder, "many.yaml");
    writeFileSync(
      file,
      `${base}seeds: [${Array.from({ length: 51 }, (_, i) => i)}]\ngrid: { train.epochs: [${Array.from({ length: 20 }, (_, i) => i + 1)}] }\n`,
    );
    expect(countRuns(await readSweep(file))).toBe(1020);
    const out = join(folder, "many");
    const { code, stderr } = await invoke(["sweep", file, "--out", out]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/this sweep has 1,020 runs, more than 1,000; look at it with --dry-run, then give --yes/);
    expect(Object.keys(createSweepPlan(await readSweep(file)).runs)).toHaveLength(1020);
  });

  it("says what it would run without running it", async () => {
    const file = join(folder, "dry.yaml");
    writeFileSync(file, `${base}title: A dry one\nseeds: [0, 1, 2]\nthen: { advglue: true }\n`);
    const { code, stdout } = await invoke(["sweep", file, "--dry-run", "--no-estimate"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/A dry one[\s\S]*all +all +1 +3[\s\S]*runs +3\nthen +3 chosen runs are measured/);
    const json = await invoke(["sweep", file, "--dry-run", "--no-estimate", "--json", "--out", join(folder, "dry")]);
    expect(JSON.parse(json.stdout)).toMatchObject({ left: 3, estimate: null, measures: ["accuracy", "advglue"] });
  });
});
