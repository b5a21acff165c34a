import { createHash } from "node:crypto";
import { UserError } from "../errors.js";
import { metrics } from "../evaluation/metrics.js";
import { createLayers } from "../methods/index.js";
import { didYouMean } from "../near-miss.js";
import { methodChoices, type RunConfig } from "../runs/config.js";
import { methodName, taskName } from "../runs/names.js";
import { resolveRunConfig } from "../runs/read-config.js";
import { identityOf } from "../runs/same-config.js";
import { selectionMetrics } from "../train/evaluate.js";
import { Overlay, type Path } from "./overlay.js";
import type { SweepFile } from "./read-sweep.js";
import type { Grid } from "./schema.js";
import { advglueMeasures, inconsistent } from "./then.js";

/** One combination of a grid's values, with a run for each seed. */
export interface Point {
  readonly values: Readonly<Record<string, unknown>>;
  /** Names of runs, in the order of the seeds. */
  readonly runs: readonly string[];
}

/** A row in a column: the combinations of which one is chosen, or the only one. */
export interface Cell {
  readonly row: string;
  readonly column: string;
  readonly points: readonly Point[];
}

/** A sweep with all its runs. */
export interface Expansion {
  readonly cells: readonly Cell[];
  /** Every run once, by its name: two cells may share runs. */
  readonly runs: ReadonlyMap<string, RunConfig>;
  readonly rows: readonly { readonly id: string; readonly title: string }[];
  readonly columns: readonly { readonly id: string; readonly title: string }[];
  readonly measures: readonly string[];
}

/** More runs than this are started only on purpose. */
export const manyRuns = 1000;

/** How many runs a sweep names; those that cells share are counted each time. */
export function countRuns({ settings: { rows, columns, grid, seeds } }: SweepFile): number {
  const size = (all: Grid): number => Object.values(all).reduce((product, values) => product * values.length, 1);
  const points = Object.values(rows).reduce((sum, row) => sum + size({ ...grid, ...row.grid }), 0);
  return points * Object.keys(columns).length * seeds.length;
}

/** All runs of a sweep, each checked; a mistake is named by its place in the file. */
export function expandSweep(sweep: SweepFile): Expansion {
  const { rows, columns, grid, seeds, select } = sweep.settings;
  const runs = new Map<string, RunConfig>();
  const cells: Cell[] = [];
  const shown: { id: string; title: string }[] = [];
  for (const [row, { title = row, grid: ownGrid, columns: inColumns = {}, ...settings }] of Object.entries(rows)) {
    const own = ownGrid ?? {};
    const combinations = combine({ ...grid, ...own });
    const originOf = (key: string): Path => (key in own ? ["rows", row, "grid", key] : ["grid", key]);
    for (const [column, { title: _, ...columnSettings }] of Object.entries(columns)) {
      const points = combinations.map((values): Point => {
        const names = seeds.map((seed) => {
          const overlay = new Overlay().add(sweep.base, []).add(columnSettings, ["columns", column]).add(settings, ["rows", row]);
          overlay.add(inColumns[column] ?? {}, ["rows", row, "columns", column]);
          for (const [key, value] of Object.entries(values)) overlay.set(key, value, originOf(key), sweep.place);
          const config = resolveRunConfig({ ...overlay.tree, seed }, (path) => sweep.place(overlay.originOf(path)));
          const name = nameOf(config);
          runs.set(name, config);
          return name;
        });
        return { values, runs: names };
      });
      if (select || points.length === 1) cells.push({ row, column, points });
      else cells.push(...points.map((point) => ({ row: rowOf(row, point), column, points: [point] })));
    }
    if (select || combinations.length === 1) shown.push({ id: row, title });
    else shown.push(...combinations.map((values) => ({ id: rowOf(row, { values }), title: rowOf(title, { values }) })));
  }
  checkSelect(sweep, cells, runs);
  return {
    cells,
    runs,
    rows: shown,
    columns: Object.entries(columns).map(([id, { title = id }]) => ({ id, title })),
    measures: measuresOf(sweep),
  };
}

/** The metric that chooses must be one of every combination that it chooses among: which there are depends on the methods. */
function checkSelect({ settings: { select }, place }: SweepFile, cells: readonly Cell[], runs: ReadonlyMap<string, RunConfig>): void {
  if (!select) return;
  const { metric } = select;
  const metricsOf = ({ runs: [first] }: Point): string[] => selectionMetrics(createLayers(methodChoices(runs.get(first!)!.method)));
  const lacking = cells.filter(({ points }) => !points.every((point) => metricsOf(point).includes(metric)));
  // A cell of one combination has nothing to choose, but a metric that no cell has is a slip.
  const wrong = lacking.find(({ points }) => points.length > 1 || lacking.length === cells.length);
  if (!wrong) return;
  const known = wrong.points.map(metricsOf).find((names) => !names.includes(metric))!;
  throw new UserError(
    `${place(["select", "metric"])}: select.metric: expected one of those that row ${wrong.row} in column ${wrong.column} has ` +
      `(${known.join(", ")}), received ${metric}${didYouMean(metric, known)}`,
  );
}

/** Every combination of a grid's values, the last key varying fastest. */
function combine(grid: Grid): Record<string, unknown>[] {
  return Object.entries(grid).reduce<Record<string, unknown>[]>(
    (all, [key, values]) => all.flatMap((before) => values.map((value) => ({ ...before, [key]: value }))),
    [{}],
  );
}

/** A row of its own for each combination, where none is selected. */
function rowOf(row: string, { values }: Pick<Point, "values">): string {
  const settings = Object.entries(values).map(([key, value]) => `${key.replace(/^.*\./, "")} ${JSON.stringify(value)}`);
  return row === "all" ? settings.join(", ") : `${row}, ${settings.join(", ")}`;
}

/** A name for people and a hash of all that decides the run: the same run has the same folder in every sweep. */
function nameOf(config: RunConfig): string {
  const hash = createHash("sha256").update(identityOf(config)).digest("hex").slice(0, 10);
  return `${taskName(config)}-${methodName(config)}-seed${config.seed}-${hash}`.replace(/[^\w.+-]+/g, "-");
}

/** What the table shows: what is named, or accuracy and all that is measured afterwards. */
function measuresOf({ settings: { measures, then }, place }: SweepFile): string[] {
  const attacks = Object.keys(then.attacks);
  const steps = then.analyses.filter(({ kind }) => kind === "consistency").flatMap(({ options }) => String(options.steps ?? "").split(","));
  const later = [
    ...steps.map((count) => `${inconsistent}${count}`),
    ...(then.advglue ? advglueMeasures : []),
    ...attacks,
    ...(attacks.length > 1 ? ["worst-case"] : []),
  ];
  if (measures === null) return ["accuracy", ...(then.advglue ? ["advglue"] : []), ...attacks];
  const known = [...Object.keys(metrics), ...later];
  for (const [i, measure] of measures.entries()) {
    if (!known.includes(measure))
      throw new UserError(`${place(["measures", i])}: measures[${i}]: expected one of ${known.join(", ")}, received ${measure}`);
  }
  return [...measures];
}
