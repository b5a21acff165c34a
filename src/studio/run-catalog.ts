import { realpath } from "node:fs/promises";
import { basename, join, relative, sep } from "node:path";
import { exists } from "../base/files.js";
import { onnxNames } from "../models/checkpoint/resolve-model.js";
import { isRunFolder, walkRunFolders } from "../runs/run-files.js";
import { readRunFingerprint } from "../runs/run-fingerprint.js";
import { HttpError } from "../serve/http.js";
import { readSweepPlan, sweepFiles } from "../sweeps/plan.js";
import type { ExportRow, LiveMessage, RunRow, SweepRow } from "./api.js";
import { type CachedRow, readRowCache, writeRowCache } from "./row-cache.js";
import { listParents, type RunPlace, readRunRow } from "./run-row.js";

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
  /** The index at which the next look at runs at rest begins. */
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

  /** The present state of the studio for a page. */
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
    const places: RunPlace[] = [];
    if (this.#isReady) for await (const place of this.#walkPlaces()) places.push(place);
    else {
      // Rows are shown while other runs are still looked for, and before any is read completely.
      const cached = await readRowCache(this.cachePath);
      await this.#report(this.#walkPlaces(), (place) => {
        places.push(place);
        return this.#readQuickly(place, cached);
      });
    }
    const ids = new Set(places.map(({ id }) => id));
    const removed = [...this.#runs.keys()].filter((id) => !ids.has(id));
    for (const id of removed) this.#runs.delete(id);
    if (removed.length > 0) this.onMessage({ type: "runs", rows: [], removed });
    await this.#report(this.#isReady ? this.#pickPlaces(places) : places, (place) => this.#readIfChanged(place));
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

  /** Reads several places at a time and reports their rows together, the first ones at once. */
  async #report(
    places: Iterable<RunPlace> | AsyncIterable<RunPlace>,
    read: (place: RunPlace) => Promise<RunRow | null>,
  ): Promise<void> {
    let [part, rows, size]: [RunPlace[], RunRow[], number] = [[], [], concurrency];
    const flush = async (minimum: number): Promise<void> => {
      rows.push(...(await Promise.all(part.map(read))).filter((row) => row !== null));
      part = [];
      if (rows.length < minimum) return;
      if (rows.length > 0) this.onMessage({ type: "runs", rows, removed: [] });
      [rows, size] = [[], rowsPerMessage];
    };
    for await (const place of places) if (part.push(place) === concurrency) await flush(size);
    await flush(0);
  }

  /** The row of the last time, or one without the numbers of attacks, until the run has been read. */
  async #readQuickly(place: RunPlace, cached: ReadonlyMap<string, CachedRow>): Promise<RunRow> {
    const last = cached.get(place.id) ?? { fingerprint: "", row: await readRunRow(place, true) };
    // The place is not taken from the file, because requests read what it names.
    const row = { ...last.row, ...place };
    this.#runs.set(place.id, { fingerprint: last.fingerprint, place, row });
    return row;
  }

  async #readIfChanged(place: RunPlace): Promise<RunRow | null> {
    const known = this.#runs.get(place.id);
    const fingerprint = await readRunFingerprint(place.folder);
    if (known?.fingerprint === fingerprint) return null;
    const row = await readRunRow(place);
    this.#runs.set(place.id, { place, fingerprint, row });
    return row;
  }

  /** The runs below the folders, each as soon as it is found. The ONNX models beside them are remembered. */
  async *#walkPlaces(): AsyncGenerator<RunPlace> {
    const exports = new Map<string, RunPlace>();
    const isShown = async (folder: string): Promise<boolean> =>
      (await isRunFolder(folder)) || (await hasOnnxModel(folder));
    for (const [index, root] of this.folders.entries()) {
      const outer = await realpath(root).catch(() => root);
      try {
        for await (const folder of walkRunFolders(root, isShown)) {
          const path = relative(root, folder);
          const id = `${index}/${path}`;
          const known = this.#runs.get(id)?.place ?? this.#exports.get(id);
          if (!known && !(await isBelow(outer, folder))) continue;
          const name = this.folders.length > 1 || path === "" ? join(basename(root), path) : path;
          if (await isRunFolder(folder))
            yield known ?? { id, name, folder, sweep: await this.#findSweep(root, folder) };
          else exports.set(id, known ?? { id, name, folder, sweep: null });
        }
      } catch {
        // A folder that cannot be read does not hide the others.
      }
    }
    this.#exports = exports;
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

/** Returns true if a folder has an ONNX model and its config. */
async function hasOnnxModel(folder: string): Promise<boolean> {
  if (!(await exists(join(folder, "config.json")))) return false;
  const files = [...onnxNames.fp32, ...onnxNames.int8].map((name) => exists(join(folder, name)));
  return (await Promise.all(files)).includes(true);
}

/** Returns true if a folder is below another one. A link that leads elsewhere is not. */
async function isBelow(outer: string, folder: string): Promise<boolean> {
  const path = await realpath(folder).catch(() => null);
  return path !== null && (path === outer || path.startsWith(outer.endsWith(sep) ? outer : `${outer}${sep}`));
}
