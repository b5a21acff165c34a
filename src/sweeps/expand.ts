import { createHash } from "node:crypto";
import { didYouMean } from "../did-you-mean.js";
import { UserError } from "../errors.js";
import { metrics } from "../evaluation/metrics.js";
import { createMethods } from "../methods/index.js";
import { type RunConfig, toMethodSpecs } from "../runs/config.js";
import { computeConfigIdentity } from "../runs/config-identity.js";
import { getMethodName, getTaskName } from "../runs/names.js";
import { resolveRunConfig } from "../runs/read-config.js";
import { listBestModelMetrics } from "../train/evaluate.js";
import { ConfigOverlay, type KeyPath } from "./config-overlay.js";
import { advglueMetrics, inconsistencyPrefix } from "./evaluation-commands.js";
import type { SweepFile } from "./read-sweep.js";
import type { Grid } from "./schema.js";

/** One combination of a grid's values, with a run for each seed. */
export interface GridPoint {
  readonly values: Readonly<Record<string, unknown>>;
  /** Names of runs, in the order of the seeds. */
  readonly runs: readonly string[];
}

/** A row in a column: the combinations of which one is chosen, or the only one. */
export interface SweepCell {
  readonly row: string;
  readonly column: string;
  readonly points: readonly GridPoint[];
}

/** A sweep with all its runs. */
export interface ExpandedSweep {
  readonly cells: readonly SweepCell[];
  /** Every run once, by its name: two cells may share runs. */
  readonly runs: ReadonlyMap<string, RunConfig>;
  readonly rows: readonly { readonly id: string; readonly title: string }[];
  readonly columns: readonly { readonly id: string; readonly title: string }[];
  readonly measures: readonly string[];
}

/** More runs than this are started only on purpose. */
export const maxUnconfirmedRuns = 1000;

/** How many runs a sweep names; those that cells share are counted each time. */
export function countRuns({ settings: { rows, columns, grid, seeds } }: SweepFile): number {
  const size = (all: Grid): number => Object.values(all).reduce((product, values) => product * values.length, 1);
  const points = Object.values(rows).reduce((sum, row) => sum + size({ ...grid, ...row.grid }), 0);
  return points * Object.keys(columns).length * seeds.length;
}

/** All runs of a sweep, each checked; a mistake is named by its place in the file. */
export function expandSweep(sweep: SweepFile): ExpandedSweep {
  const { rows, columns, grid, seeds, select } = sweep.settings;
  const runs = new Map<string, RunConfig>();
  const cells: SweepCell[] = [];
  const shown: { id: string; title: string }[] = [];
  for (const [row, { title = row, grid: ownGrid, columns: inColumns = {}, ...settings }] of Object.entries(rows)) {
    const own = ownGrid ?? {};
    const combinations = expandGrid({ ...grid, ...own });
    const getOrigin = (key: string): KeyPath => (key in own ? ["rows", row, "grid", key] : ["grid", key]);
    for (const [column, { title: _, ...columnSettings }] of Object.entries(columns)) {
      const points = combinations.map((values): GridPoint => {
        const names = seeds.map((seed) => {
          const overlay = new ConfigOverlay()
            .add(sweep.baseConfig, [])
            .add(columnSettings, ["columns", column])
            .add(settings, ["rows", row]);
          overlay.add(inColumns[column] ?? {}, ["rows", row, "columns", column]);
          for (const [key, value] of Object.entries(values)) overlay.set(key, value, getOrigin(key), sweep.locate);
          const config = resolveRunConfig({ ...overlay.config, seed }, (path) => sweep.locate(overlay.getOrigin(path)));
          const name = createRunName(config);
          runs.set(name, config);
          return name;
        });
        return { values, runs: names };
      });
      if (select || points.length === 1) cells.push({ row, column, points });
      else cells.push(...points.map((point) => ({ row: formatRowName(row, point), column, points: [point] })));
    }
    if (select || combinations.length === 1) shown.push({ id: row, title });
    else
      shown.push(
        ...combinations.map((values) => ({
          id: formatRowName(row, { values }),
          title: formatRowName(title, { values }),
        })),
      );
  }
  checkSelectionMetric(sweep, cells, runs);
  return {
    cells,
    runs,
    rows: shown,
    columns: Object.entries(columns).map(([id, { title = id }]) => ({ id, title })),
    measures: resolveTableMetrics(sweep),
  };
}

/** The metric that chooses must be one of every combination that it chooses among: which there are depends on the methods. */
function checkSelectionMetric(
  { settings: { select }, locate: place }: SweepFile,
  cells: readonly SweepCell[],
  runs: ReadonlyMap<string, RunConfig>,
): void {
  if (!select) return;
  const { metric } = select;
  const listMetrics = ({ runs: [first] }: GridPoint): string[] =>
    listBestModelMetrics(createMethods(toMethodSpecs(runs.get(first!)!.methods)));
  const lacking = cells.filter(({ points }) => !points.every((point) => listMetrics(point).includes(metric)));
  // A cell of one combination has nothing to choose, but a metric that no cell has is a slip.
  const wrong = lacking.find(({ points }) => points.length > 1 || lacking.length === cells.length);
  if (!wrong) return;
  const known = wrong.points.map(listMetrics).find((names) => !names.includes(metric))!;
  throw new UserError(
    `${place(["select", "metric"])}: select.metric: expected one of those that row ${wrong.row} in column ${wrong.column} has ` +
      `(${known.join(", ")}), received ${metric}${didYouMean(metric, known)}`,
  );
}

/** Every combination of a grid's values, the last key varying fastest. */
function expandGrid(grid: Grid): Record<string, unknown>[] {
  return Object.entries(grid).reduce<Record<string, unknown>[]>(
    (all, [key, values]) => all.flatMap((before) => values.map((value) => ({ ...before, [key]: value }))),
    [{}],
  );
}

/** A row of its own for each combination, where none is selected. */
function formatRowName(row: string, { values }: Pick<GridPoint, "values">): string {
  const settings = Object.entries(values).map(([key, value]) => `${key.replace(/^.*\./, "")} ${JSON.stringify(value)}`);
  return row === "all" ? settings.join(", ") : `${row}, ${settings.join(", ")}`;
}

/** A name for people and a hash of all that decides the run: the same run has the same folder in every sweep. */
function createRunName(config: RunConfig): string {
  const hash = createHash("sha256").update(computeConfigIdentity(config)).digest("hex").slice(0, 10);
  return `${getTaskName(config)}-${getMethodName(config)}-seed${config.seed}-${hash}`.replace(/[^\w.+-]+/g, "-");
}

/** What the table shows: what is named, or accuracy and all that is measured afterwards. */
function resolveTableMetrics({
  settings: { metrics: measures, evaluation: then },
  locate: place,
}: SweepFile): string[] {
  const attacks = Object.keys(then.attacks);
  const steps = then.analyses
    .filter(({ kind }) => kind === "consistency")
    .flatMap(({ options }) => String(options.steps ?? "").split(","));
  const later = [
    ...steps.map((count) => `${inconsistencyPrefix}${count}`),
    ...(then.advglue ? advglueMetrics : []),
    ...attacks,
    ...(attacks.length > 1 ? ["worst-case"] : []),
  ];
  if (measures === null) return ["accuracy", ...(then.advglue ? ["advglue"] : []), ...attacks];
  const known = [...Object.keys(metrics), ...later];
  for (const [i, measure] of measures.entries()) {
    if (!known.includes(measure))
      throw new UserError(
        `${place(["measures", i])}: measures[${i}]: expected one of ${known.join(", ")}, received ${measure}`,
      );
  }
  return [...measures];
}
