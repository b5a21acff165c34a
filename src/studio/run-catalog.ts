import { realpath } from "node:fs/promises";
import { basename, join, relative } from "node:path";
import { exists } from "../base/files.js";
import { isBelow } from "../base/trust.js";
import { onnxNames } from "../models/checkpoint/resolve-model.js";
import { isRunFolder, walkRunFolders } from "../runs/run-files.js";
import { readRunFingerprint } from "../runs/run-fingerprint.js";
import { HttpError } from "../serve/http.js";
import type { RunRow, StudioState } from "./api.js";
import { type RunPlace, readRunRow } from "./run-row.js";

interface KnownRun {
  readonly place: RunPlace;
  readonly row: RunRow;
  /** Empty if the run was only looked at quickly. */
  readonly fingerprint: string;
  /** The version of the catalog that has this row first. */
  readonly version: number;
}

/** Runs that are read at the same time. */
const concurrency = 16;
/** Runs at rest that are looked at each time. More are looked at in turn. */
const restingRunsPerLook = 100;

/**
 * The runs below the folders that the studio shows. Only these can be named in requests, so no
 * request reaches a file elsewhere.
 */
export class RunCatalog {
  readonly #runs = new Map<string, KnownRun>();
  #exports = new Map<string, RunPlace>();
  #version = 0;
  /** The version that lacks a run for the first time. */
  #lastRemoval = 0;
  #looks = 0;
  #isLooking = false;
  #isReady = false;
  #becomeReady = (): void => undefined;
  /** Resolved when every run has been read once. */
  readonly #ready = new Promise<void>((resolve) => {
    this.#becomeReady = resolve;
  });

  /** Folders as they were given, so that commands can be pasted into the same shell. */
  constructor(readonly folders: readonly string[]) {}

  /** What has changed since a version, and everything that is not a run. */
  getState(since: number): Omit<StudioState, "jobs"> {
    const isComplete = since < this.#lastRemoval;
    const known = [...this.#runs.values()];
    return {
      version: this.#version,
      rows: known.filter(({ version }) => isComplete || version > since).map(({ row }) => row),
      isComplete,
      exports: [...this.#exports.values()].map(({ id, name }) => ({ id, name })),
      isReady: this.#isReady,
    };
  }

  async getRow(id: string): Promise<RunRow> {
    if (!this.#runs.has(id)) await this.#ready;
    const known = this.#runs.get(id);
    if (!known) throw new HttpError(404, "There is no such run in the folders of this studio.");
    return known.row;
  }

  async getModelFolder(id: string): Promise<string> {
    if (!this.#exports.has(id) && !this.#runs.has(id)) await this.#ready;
    return this.#exports.get(id)?.folder ?? (await this.getRow(id)).folder;
  }

  async findId(folder: string): Promise<string | null> {
    const path = await realpath(folder).catch(() => folder);
    for (const [index, root] of this.folders.entries()) {
      const id = `${index}/${relative(await realpath(root).catch(() => root), path)}`;
      if (this.#runs.has(id)) return id;
    }
    return null;
  }

  listModels(): string[] {
    return [...this.#runs.values()].filter(({ row }) => row.hasModel).map(({ row }) => row.folder);
  }

  /** Looks for new, changed and removed runs, unless the last look goes on. */
  async refresh(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    await this.#look().finally(() => {
      this.#isLooking = false;
    });
  }

  async #look(): Promise<void> {
    const places: RunPlace[] = [];
    await forEachAtOnce(this.#walkPlaces(), async (place) => {
      places.push(place);
      // A row without the numbers of attacks is shown until the run has been read.
      if (!this.#runs.has(place.id)) this.#set(place, await readRunRow(place, true), "");
    });
    const ids = new Set(places.map(({ id }) => id));
    for (const id of this.#runs.keys())
      if (!ids.has(id)) {
        this.#runs.delete(id);
        this.#lastRemoval = ++this.#version;
      }
    await forEachAtOnce(this.#pickPlaces(places), async (place) => {
      const fingerprint = await readRunFingerprint(place.folder);
      if (this.#runs.get(place.id)?.fingerprint !== fingerprint) this.#set(place, await readRunRow(place), fingerprint);
    });
    this.#isReady = true;
    this.#becomeReady();
  }

  #set(place: RunPlace, row: RunRow, fingerprint: string): void {
    this.#runs.set(place.id, { place, row, fingerprint, version: ++this.#version });
  }

  /** Chooses the runs to look at: those that work, new ones, and some of those at rest. */
  #pickPlaces(places: readonly RunPlace[]): RunPlace[] {
    const turns = Math.ceil(places.length / restingRunsPerLook);
    const turn = this.#looks++ % turns;
    return places.filter(({ id }, i) => {
      const { fingerprint, row } = this.#runs.get(id)!;
      return fingerprint === "" || row.state === "running" || i % turns === turn;
    });
  }

  /** Yields the runs as soon as they are found, and remembers the ONNX models beside them. */
  async *#walkPlaces(): AsyncGenerator<RunPlace> {
    const exports = new Map<string, RunPlace>();
    const isShown = async (folder: string): Promise<boolean> =>
      (await isRunFolder(folder)) || (await hasOnnxModel(folder));
    for (const [index, root] of this.folders.entries()) {
      try {
        for await (const folder of walkRunFolders(root, isShown)) {
          const path = relative(root, folder);
          const id = `${index}/${path}`;
          const known = this.#runs.get(id)?.place ?? this.#exports.get(id);
          // A link may lead elsewhere.
          if (!known && folder !== root && !isBelow(folder, [root])) continue;
          const name = this.folders.length > 1 || path === "" ? join(basename(root), path) : path;
          const place = known ?? { id, name, folder };
          if (await isRunFolder(folder)) yield place;
          else exports.set(id, place);
        }
      } catch {
        // A folder that cannot be read does not hide the others.
      }
    }
    this.#exports = exports;
  }
}

async function forEachAtOnce(
  places: Iterable<RunPlace> | AsyncIterable<RunPlace>,
  work: (place: RunPlace) => Promise<void>,
): Promise<void> {
  let part: Promise<void>[] = [];
  for await (const place of places) {
    if (part.push(work(place)) < concurrency) continue;
    await Promise.all(part);
    part = [];
  }
  await Promise.all(part);
}

async function hasOnnxModel(folder: string): Promise<boolean> {
  if (!(await exists(join(folder, "config.json")))) return false;
  const files = [...onnxNames.fp32, ...onnxNames.int8].map((name) => exists(join(folder, name)));
  return (await Promise.all(files)).includes(true);
}
