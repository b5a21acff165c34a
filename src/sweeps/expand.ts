import { createHash } from "node:crypto";
import { analyses } from "../analysis/definitions.js";
import { didYouMean } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import { isModulePath } from "../base/trust.js";
import type { KeyPath } from "../base/yaml.js";
import { exactPrefix } from "../evaluation/metric-table.js";
import { metrics } from "../evaluation/metrics.js";
import { listBestModelMetrics, type ResolvedMethod } from "../methods/index.js";
import { formatTaskName } from "../runs/run-files.js";
import { formatConfigIdentity, formatMethodNames, type RunConfig } from "../settings/config.js";
import { resolveRun } from "../settings/read-config.js";
import { ConfigOverlay } from "./config-overlay.js";
import type { SweepFile } from "./read-sweep.js";
import type { Grid, GridPoint, SweepCell } from "./schema.js";
import { linkToStageRuns, type StageRuns } from "./stages.js";

/** Counts the runs that a sweep names. Runs that cells share count once per cell. */
export function countRuns({ settings: { stages, rows, columns, grid, seeds } }: SweepFile): number {
  const countPoints = (keys: Grid): number => Object.values(keys).reduce((product, { length }) => product * length, 1);
  const points = Object.values(rows).reduce((sum, row) => sum + countPoints({ ...grid, ...row.grid }), 0);
  const stageRuns = Object.values(stages).reduce((sum, { perSeed }) => sum + (perSeed ? seeds.length : 1), 0);
  return points * Object.keys(columns).length * seeds.length + stageRuns;
}

/** Lists and checks all runs of a sweep. Mistakes are reported with their place in the file. */
export async function expandSweep(sweep: SweepFile) {
  const { rows, columns, seeds, select } = sweep.settings;
  const configs: Record<string, RunConfig> = {};
  const stageRuns = await expandStages(sweep, configs);
  const allStages = [...stageRuns.keys()];
  const methods = new Map<GridPoint, readonly ResolvedMethod[]>();
  const cells: SweepCell[] = [];
  const tableRows: { id: string; title: string }[] = [];
  for (const [row, { title = row }] of Object.entries(rows)) {
    const combinations = expandGrid(getGrid(sweep, row));
    const isSingle = select !== null || combinations.length === 1;
    for (const column of Object.keys(columns)) {
      const points: GridPoint[] = [];
      for (const values of combinations) {
        // Nothing else depends on the seed, and checking a config takes longer than all the rest.
        const { settings, locate } = createCellSettings(sweep, row, column, values, seeds[0]!);
        const { config: written, methods: resolved } = await resolveRun(settings, sweep.modules, locate);
        const linked = linkToStageRuns(written, seeds, stageRuns, allStages, locate(["model"]));
        const names = linked.map(createRunName);
        for (const [i, name] of names.entries()) configs[name] = linked[i]!;
        const point = { values, runs: names };
        points.push(point);
        methods.set(point, resolved);
      }
      if (isSingle) cells.push({ row, column, points });
      else for (const point of points) cells.push({ row: formatRowName(row, point.values), column, points: [point] });
    }
    if (isSingle) tableRows.push({ id: row, title });
    else
      for (const values of combinations)
        tableRows.push({ id: formatRowName(row, values), title: formatRowName(title, values) });
  }
  checkSelectionMetric(sweep, cells, methods);
  return {
    stages: Object.fromEntries([...stageRuns].flatMap(([stage, runs]) => listStageRuns(stage, runs, seeds))),
    cells,
    configs,
    rows: tableRows,
    columns: Object.entries(columns).map(([id, { title = id }]) => ({ id, title })),
    metrics: resolveTableMetrics(sweep),
  };
}

/** Adds the runs of each stage to the configs. Returns their names. A stage may use the ones before. */
async function expandStages(sweep: SweepFile, configs: Record<string, RunConfig>): Promise<Map<string, StageRuns>> {
  const { stages, seeds } = sweep.settings;
  const runs = new Map<string, StageRuns>();
  for (const [stage, { perSeed: isPerSeed, ...settings }] of Object.entries(stages)) {
    const overlay = new ConfigOverlay().add(sweep.baseConfig, []).add(settings, ["stages", stage]);
    const locate = (path: KeyPath): string => sweep.locate(overlay.getOrigin(path));
    if (isPerSeed && "seed" in settings)
      throw new UserError(
        `${sweep.locate(["stages", stage, "seed"])}: stages.${stage}.seed: ` +
          "expected no seed with perSeed: true, which uses the seeds of the table. Remove one of them.",
      );
    const { config } = await resolveRun({ seed: seeds[0]!, ...overlay.config }, sweep.modules, locate);
    // A stage with one run cannot start from several.
    const usable = new Map([...runs].filter(([, earlier]) => isPerSeed || !earlier.isPerSeed));
    const stageSeeds = isPerSeed ? seeds : [config.seed];
    const linked = linkToStageRuns(config, stageSeeds, usable, Object.keys(stages), locate(["model"]));
    const names = linked.map(createRunName);
    for (const [i, name] of names.entries()) configs[name] = linked[i]!;
    runs.set(stage, { isPerSeed, names });
  }
  return runs;
}

function listStageRuns(stage: string, { isPerSeed, names }: StageRuns, seeds: readonly number[]): [string, string][] {
  return names.map((name, i) => [isPerSeed ? `${stage}, seed ${seeds[i]}` : stage, name]);
}

/** The settings of one run: of the sweep, column, row, row in that column, then grid. */
function createCellSettings(
  sweep: SweepFile,
  row: string,
  column: string,
  values: GridPoint["values"],
  seed: number,
): { readonly settings: object; readonly locate: (path: KeyPath) => string } {
  const { title: _, grid: rowGrid, columns: rowColumns = {}, ...rowSettings } = sweep.settings.rows[row]!;
  const { title: __, ...columnSettings } = sweep.settings.columns[column]!;
  const overlay = new ConfigOverlay()
    .add(sweep.baseConfig, [])
    .add(columnSettings, ["columns", column])
    .add(rowSettings, ["rows", row])
    .add(rowColumns[column] ?? {}, ["rows", row, "columns", column]);
  for (const [key, value] of Object.entries(values)) {
    const origin: KeyPath = key in (rowGrid ?? {}) ? ["rows", row, "grid", key] : ["grid", key];
    overlay.set(key, value, origin, sweep.locate);
  }
  const locate = (path: KeyPath): string => sweep.locate(overlay.getOrigin(path));
  return { settings: { ...overlay.config, seed }, locate };
}

function getGrid({ settings: { grid, rows } }: SweepFile, row: string): Grid {
  return { ...grid, ...rows[row]!.grid };
}

/** Every combination of a grid's values. The last key varies fastest. */
function expandGrid(grid: Grid): GridPoint["values"][] {
  return Object.entries(grid).reduce<GridPoint["values"][]>(
    (all, [key, values]) => all.flatMap((before) => values.map((value) => ({ ...before, [key]: value }))),
    [{}],
  );
}

function formatRowName(row: string, values: GridPoint["values"]): string {
  const settings = Object.entries(values).map(([key, value]) => `${key.replace(/^.*\./, "")} ${JSON.stringify(value)}`);
  return row === "all" ? settings.join(", ") : `${row}, ${settings.join(", ")}`;
}

/** A readable name with a hash of all that decides the run: one folder in every sweep. */
function createRunName(config: RunConfig): string {
  const hash = createHash("sha256").update(formatConfigIdentity(config)).digest("hex").slice(0, 10);
  const base = `${formatTaskName(config)}-${formatMethodNames(config)}`;
  return `${base}-seed${config.seed}-${hash}`.replace(/[^\w.+-]+/g, "-");
}

/** Every combination to select from must have the metric, which depends on the methods. */
function checkSelectionMetric(
  { settings: { select }, modules, locate }: SweepFile,
  cells: readonly SweepCell[],
  methods: ReadonlyMap<GridPoint, readonly ResolvedMethod[]>,
): void {
  if (!select) return;
  const { metric } = select;
  const missing: { cell: SweepCell; known: readonly string[] }[] = [];
  for (const cell of cells) {
    const stacks = cell.points.map((point) => methods.get(point)!);
    // A custom method that was not imported may have its own metric.
    if (modules.trust === "none" && stacks.flat().some(({ name }) => isModulePath(name))) continue;
    const known = stacks.map(listBestModelMetrics).find((names) => !names.includes(metric));
    if (known) missing.push({ cell, known });
  }
  // A cell with one combination selects nothing, but a metric that no cell has is a mistake.
  const wrong = missing.find(({ cell }) => cell.points.length > 1 || missing.length === cells.length);
  if (!wrong) return;
  const { cell, known } = wrong;
  throw new UserError(
    `${locate(["select", "metric"])}: select.metric: expected a metric of row ${cell.row} in column ${cell.column} ` +
      `(${known.join(", ")}), received ${metric}${didYouMean(metric, known)}.`,
  );
}

/** The metrics of the table: those that the file names, or accuracy and what `evaluation` adds. */
function resolveTableMetrics(file: SweepFile): string[] {
  const { settings, attackNames: attacks, locate } = file;
  const { metrics: wanted, evaluation } = settings;
  const exact = evaluation.exact ? [`${exactPrefix}${evaluation.exact.maxChanges}`] : [];
  if (wanted === null) return ["accuracy", ...(evaluation.advglue ? ["advglue"] : []), ...attacks, ...exact];
  const known = [
    ...Object.keys(metrics),
    ...evaluation.analyses.flatMap(({ kind, options }) => analyses.get(kind)!.listMetrics?.(options) ?? []),
    ...(evaluation.advglue ? ["advglue", "drop"] : []),
    ...attacks,
    ...Array.from({ length: evaluation.exact?.maxChanges ?? 0 }, (_, i) => `${exactPrefix}${i + 1}`),
    ...(attacks.length > 1 ? ["worst-case"] : []),
  ];
  const wrong = wanted.findIndex((metric) => !known.includes(metric));
  // A dry run does not know the names of custom attacks.
  if (wrong < 0 || attacks.some(isModulePath)) return wanted;
  throw new UserError(
    `${locate(["metrics", wrong])}: metrics[${wrong}]: unknown metric ${wanted[wrong]}` +
      `${didYouMean(wanted[wrong]!, known)}. Use one of ${known.join(", ")}.`,
  );
}
