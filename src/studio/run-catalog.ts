import { realpath } from "node:fs/promises";
import { basename, join, relative, sep } from "node:path";
import { exists } from "../files.js";
import { onnxNames } from "../models/checkpoint/resolve-model.js";
import { findRunFolders, isRunFolder } from "../runs/run-files.js";
import { readRunFingerprint } from "../runs/run-fingerprint.js";
import { HttpError } from "../serve/http.js";
import { readSweepPlan, sweepFiles } from "../sweeps/plan.js";
import type { ExportRow, LiveMessage, RunRow, SweepRow } from "./api.js";
import { type CachedRow, readRowCache, writeRowCache } from "./row-cache.js";
import { listParents, type RunPlace, readQuickRow, readRunRow } from "./run-row.js";

interface KnownRun extends CachedRow {
  readonly place: RunPlace;
}

/** Runs that are read at the same time. */
const concurrency = 16;
/** Rows that are sent together, so that the first ones appear at once. */
const rowsPerMessage = 50;
/** Runs at rest that are looked at each time. More are looked at in turn. */
const restingRunsPerLook = 100;

/**
 * The runs below the folders that the studio shows. Only these can be named in requests, so no
 * request reaches a file elsewhere.
 */
export class RunCatalog {
  readonly #runs = new Map<string, KnownRun>();
  readonly #sweeps = new Map<string, number>();
  /** Folders of ONNX models by their ids. */
  #exports = new Map<string, RunPlace>();
  readonly #sent = new Map<string, string>();
  #isReady = false;
  /** Where the next look at runs at rest begins. */
  #nextResting = 0;
  #becomeReady = (): void => undefined;
  /** Resolved when every run has been read once. */
  readonly #ready = new Promise<void>((resolve) => {
    this.#becomeReady = resolve;
  });

  constructor(
    /** Folders as they were given, so that commands can be pasted into the same shell. */
    readonly folders: readonly string[],
    readonly onMessage: (message: LiveMessage) => void,
    /** The file with the rows of the last time. */
    readonly cachePath: string,
  ) {}

  /** What a page needs to show the present state. */
  listMessages(): LiveMessage[] {
    const rows = [...this.#runs.values()].map(({ row }) => row);
    return [
      { type: "runs", rows, removed: [] },
      { type: "sweeps", sweeps: this.#listSweeps() },
      { type: "exports", exports: this.#listExports() },
      ...(this.#isReady ? [{ type: "ready" } as const] : []),
    ];
  }

  /** The row of a run by its id. */
  async getRow(id: string): Promise<RunRow> {
    if (!this.#runs.has(id)) await this.#ready;
    const known = this.#runs.get(id);
    if (!known) throw new HttpError(404, "There is no such run in the folders of this studio.");
    return known.row;
  }

  /** The folder of a run or an ONNX model by its id. */
  async getModelFolder(id: string): Promise<string> {
    if (!this.#exports.has(id) && !this.#runs.has(id)) await this.#ready;
    return this.#exports.get(id)?.folder ?? (await this.getRow(id)).folder;
  }

  /** The id of the run in a folder; null if it is not listed. */
  async findId(folder: string): Promise<string | null> {
    const path = await realpath(folder).catch(() => folder);
    for (const [id, { place }] of this.#runs)
      if (place.folder === folder || (await realpath(place.folder).catch(() => "")) === path) return id;
    return null;
  }

  /** The folders of the runs that have a model. */
  listModels(): string[] {
    return [...this.#runs.values()].filter(({ row }) => row.hasModel).map(({ row }) => row.folder);
  }

  /** Looks for new, changed and removed runs and reports them. */
  async refresh(): Promise<void> {
    const places = await this.#findPlaces();
    const removed = [...this.#runs.keys()].filter((id) => !places.some((place) => place.id === id));
    for (const id of removed) this.#runs.delete(id);
    if (removed.length > 0) this.onMessage({ type: "runs", rows: [], removed });
    if (!this.#isReady) await this.#showQuickRows(places);
    const watched = this.#isReady ? this.#pickPlaces(places) : places;
    let changed: RunRow[] = [];
    const report = (): void => {
      if (changed.length > 0) this.onMessage({ type: "runs", rows: changed, removed: [] });
      changed = [];
    };
    for (let start = 0; start < watched.length; start += concurrency) {
      const rows = await Promise.all(
        watched.slice(start, start + concurrency).map((place) => this.#readIfChanged(place)),
      );
      changed.push(...rows.filter((row) => row !== null));
      if (changed.length >= rowsPerMessage) report();
    }
    report();
    this.#reportIfChanged({ type: "sweeps", sweeps: this.#listSweeps() });
    this.#reportIfChanged({ type: "exports", exports: this.#listExports() });
    if (this.#isReady) return;
    this.onMessage({ type: "ready" });
    this.#isReady = true;
    this.#becomeReady();
    await this.save();
  }

  /** Writes the rows for the next start. */
  async save(): Promise<void> {
    const rows = [...this.#runs].map(([id, { fingerprint, row }]) => [id, { fingerprint, row }] as const);
    if (this.#isReady) await writeRowCache(this.cachePath, rows);
  }

  /** Chooses the runs to look at: those that work, new ones, and some of those at rest. */
  #pickPlaces(places: readonly RunPlace[]): RunPlace[] {
    const isResting = ({ id }: RunPlace): boolean => (this.#runs.get(id)?.row.state ?? "running") !== "running";
    const resting = places.filter(isResting);
    if (resting.length <= restingRunsPerLook) return [...places];
    const start = this.#nextResting % resting.length;
    this.#nextResting = start + restingRunsPerLook;
    const turn = [...resting, ...resting].slice(start, start + restingRunsPerLook);
    return [...places.filter((place) => !isResting(place)), ...turn];
  }

  /**
   * Before everything has been read once, the rows of the last time are shown, and rows without the
   * numbers of attacks.
   */
  async #showQuickRows(places: readonly RunPlace[]): Promise<void> {
    const cached = await readRowCache(this.cachePath);
    for (const place of places) {
      const last = cached.get(place.id);
      // The place is not taken from the file, because requests read what it names.
      if (last) this.#runs.set(place.id, { ...last, place, row: { ...last.row, ...place } });
    }
    this.onMessage({ type: "runs", rows: [...this.#runs.values()].map(({ row }) => row), removed: [] });
    const unknown = places.filter(({ id }) => !this.#runs.has(id));
    for (let start = 0; start < unknown.length; start += concurrency) {
      const part = unknown.slice(start, start + concurrency);
      const rows = await Promise.all(part.map(readQuickRow));
      for (const [i, row] of rows.entries()) this.#runs.set(row.id, { place: part[i]!, fingerprint: "", row });
      this.onMessage({ type: "runs", rows, removed: [] });
    }
  }

  async #readIfChanged(place: RunPlace): Promise<RunRow | null> {
    const known = this.#runs.get(place.id);
    const fingerprint = await readRunFingerprint(place.folder);
    if (known?.fingerprint === fingerprint) return null;
    const row = await readRunRow(place);
    this.#runs.set(place.id, { place, fingerprint, row });
    return row;
  }

  async #findPlaces(): Promise<RunPlace[]> {
    const [places, exports] = [new Map<string, RunPlace>(), new Map<string, RunPlace>()];
    for (const [index, root] of this.folders.entries()) {
      const outer = await realpath(root).catch(() => root);
      const isShown = async (folder: string): Promise<boolean> =>
        (await isRunFolder(folder)) || (await hasOnnxModel(folder));
      for (const folder of await findRunFolders(root, isShown).catch(() => [])) {
        const path = relative(root, folder);
        const id = `${index}/${path}`;
        const known = this.#runs.get(id)?.place ?? this.#exports.get(id);
        if (!known && !(await isBelow(outer, folder))) continue;
        const name = this.folders.length > 1 || path === "" ? join(basename(root), path) : path;
        const isRun = await isRunFolder(folder);
        const found = isRun ? places : exports;
        found.set(id, known ?? { id, name, folder, sweep: isRun ? await this.#findSweep(root, folder) : null });
      }
    }
    this.#exports = exports;
    return [...places.values()];
  }

  /** The name of the sweep that contains a run. */
  async #findSweep(root: string, folder: string): Promise<string | null> {
    for (const parent of listParents(root, folder)) {
      const name = relative(root, parent) || basename(root);
      if (this.#sweeps.has(name)) return name;
      if (!(await exists(join(parent, sweepFiles.plan)))) continue;
      const plan = await readSweepPlan(parent).catch(() => null);
      if (!plan) continue;
      this.#sweeps.set(name, plan.runs.length);
      return name;
    }
    return null;
  }

  #listSweeps(): SweepRow[] {
    const rows = [...this.#runs.values()].map(({ row }) => row);
    return [...this.#sweeps].map(([name, total]) => ({
      name,
      total,
      finished: rows.filter((row) => row.sweep === name && row.state === "finished").length,
    }));
  }

  #listExports(): ExportRow[] {
    return [...this.#exports.values()].map(({ id, name }) => ({ id, name }));
  }

  #reportIfChanged(message: LiveMessage): void {
    const text = JSON.stringify(message);
    if (this.#sent.get(message.type) === text) return;
    this.#sent.set(message.type, text);
    this.onMessage(message);
  }
}

/** Whether a folder has an ONNX model and its config. */
async function hasOnnxModel(folder: string): Promise<boolean> {
  if (!(await exists(join(folder, "config.json")))) return false;
  const files = [...onnxNames.full, ...onnxNames.quantized].map((name) => exists(join(folder, name)));
  return (await Promise.all(files)).includes(true);
}

/** Whether a folder is below another one. A link that leads elsewhere is not. */
async function isBelow(outer: string, folder: string): Promise<boolean> {
  const path = await realpath(folder).catch(() => null);
  return path !== null && (path === outer || path.startsWith(outer.endsWith(sep) ? outer : `${outer}${sep}`));
}
