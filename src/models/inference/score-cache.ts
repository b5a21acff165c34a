import crypto from "node:crypto";
import {
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { getCacheFolder } from "../../base/cache.js";
import { UserError } from "../../base/errors.js";
import { createFileError } from "../../base/files.js";
import { predictInCalls } from "./predict-in-calls.js";
import type { Identified, PredictOptions, Predictor, PreparedText } from "./predictor.js";
import { createScore, getRow, type Score } from "./score.js";

/** Bytes per key: half a SHA-256, which makes collisions practically impossible. */
const keyBytes = 16;
const checksumBytes = 4;
/** A file has at most this many times the records that fit in a generation. */
const maxFileGenerations = 4;
/** Bytes of all files. The oldest are removed beyond that. */
const maxFolderBytes = 2e9;

export function computeContentKey(content: PreparedText["content"]): string {
  return sha256(content).slice(0, keyBytes);
}

/** crypto.hash (Node 20.12 or later) creates no hash object per text. */
const sha256: (content: PreparedText["content"]) => string = crypto.hash
  ? (content) => crypto.hash("sha256", content, "binary")
  : (content) => crypto.createHash("sha256").update(content).digest("binary");

/** Scores by key in one array, compact enough for a million entries. */
class CacheGeneration {
  readonly rows = new Map<string, number>();
  readonly values: Float32Array;
  constructor(
    readonly capacity: number,
    readonly numLabels: number,
  ) {
    this.values = new Float32Array(capacity * numLabels);
  }
}

/**
 * Scores by content, in bounded memory. There are two generations. When the newer one is full, the
 * older one is dropped, which keeps recently used scores. With a path, every new score is also
 * appended to a file that later runs read. A record there has a key, scores and a checksum, so
 * damaged records are ignored.
 */
export class ScoreCache {
  #young: CacheGeneration;
  #old: CacheGeneration;
  #file: number | undefined;
  /** Records in the file. It is cut down when it is opened, and grows only to a limit. */
  #saved = 0;
  #unsaved: Buffer[] = [];

  constructor(
    readonly numLabels: number,
    options: { readonly path?: string; readonly entries?: number } = {},
  ) {
    const capacity = Math.max(1, Math.floor((options.entries ?? 500_000) / 2));
    this.#young = new CacheGeneration(capacity, numLabels);
    this.#old = new CacheGeneration(capacity, numLabels);
    if (options.path !== undefined) this.#open(options.path);
  }

  /** Returns true if scores are stored in a file, for a later run. */
  get isStored(): boolean {
    return this.#file !== undefined;
  }

  get(key: string): Float32Array | undefined {
    const young = this.#young.rows.get(key);
    if (young !== undefined) return this.#getRow(this.#young, young);
    const old = this.#old.rows.get(key);
    if (old === undefined) return undefined;
    const scores = this.#getRow(this.#old, old);
    this.#insert(key, scores);
    return scores;
  }

  set(key: string, scores: ArrayLike<number>): void {
    this.#insert(key, scores);
    if (this.#file !== undefined) this.#unsaved.push(this.#encode(key, scores));
  }

  flush(): void {
    if (this.#file === undefined || this.#unsaved.length === 0) return;
    const records = Buffer.concat(this.#unsaved);
    this.#saved += this.#unsaved.length;
    this.#unsaved = [];
    try {
      writeSync(this.#file, records);
      if (this.#saved > maxFileGenerations * this.#young.capacity) this.#closeFile();
    } catch {
      // If the disk is full, later runs take longer, but this run still gets its result.
      this.#closeFile();
    }
  }

  close(): void {
    this.flush();
    this.#closeFile();
  }

  #closeFile(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  #insert(key: string, scores: ArrayLike<number>): void {
    if (this.#young.rows.size >= this.#young.capacity) {
      this.#old = this.#young;
      this.#young = new CacheGeneration(this.#old.capacity, this.numLabels);
    }
    const row = this.#young.rows.get(key) ?? this.#young.rows.size;
    this.#young.rows.set(key, row);
    this.#young.values.set(scores, row * this.numLabels);
  }

  #getRow(generation: CacheGeneration, row: number): Float32Array {
    return generation.values.subarray(row * this.numLabels, (row + 1) * this.numLabels);
  }

  get #recordBytes(): number {
    return keyBytes + 4 * this.numLabels + checksumBytes;
  }

  #encode(key: string, scores: ArrayLike<number>): Buffer {
    const record = Buffer.alloc(this.#recordBytes);
    record.write(key, 0, "latin1");
    for (let i = 0; i < this.numLabels; i++) record.writeFloatLE(scores[i]!, keyBytes + 4 * i);
    record.writeUInt32LE(computeChecksum(record.subarray(0, -checksumBytes)), record.length - checksumBytes);
    return record;
  }

  /** Reads the newest records that fit in memory, and keeps the file open for appending. */
  #open(path: string): void {
    const size = this.#recordBytes;
    try {
      mkdirSync(dirname(path), { recursive: true });
      this.#file = openSync(path, "a+");
      const count = Math.floor(fstatSync(this.#file).size / size);
      const newest = Buffer.alloc(size * Math.min(count, this.#young.capacity));
      readSync(this.#file, newest, 0, newest.length, size * count - newest.length);
      if (count > 2 * this.#young.capacity) {
        this.#closeFile();
        replaceFile(path, newest);
        this.#file = openSync(path, "a+");
      }
      // Pad the incomplete last record of a killed process. Its checksum fails.
      const rest = fstatSync(this.#file).size % size;
      if (rest !== 0) writeSync(this.#file, Buffer.alloc(size - rest));
      this.#saved = Math.floor(fstatSync(this.#file).size / size);
      for (let at = 0; at < newest.length; at += size) this.#readRecord(newest.subarray(at, at + size));
    } catch (error) {
      throw createFileError(error, path, "open the score cache");
    }
  }

  #readRecord(record: Buffer): void {
    if (computeChecksum(record.subarray(0, -checksumBytes)) !== record.readUInt32LE(record.length - checksumBytes))
      return;
    const scores = Array.from({ length: this.numLabels }, (_, i) => record.readFloatLE(keyBytes + 4 * i));
    this.#insert(record.toString("latin1", 0, keyBytes), scores);
  }
}

/** Opens the score cache of a predictor: on disk if its answers are deterministic. */
export function openScoreCache({
  numLabels,
  hash,
  isDeterministic,
}: Pick<Predictor, "numLabels"> & Partial<Identified>): ScoreCache {
  if (hash === undefined || !isDeterministic) return new ScoreCache(numLabels);
  const folder = join(getCacheFolder(), "scores");
  try {
    removeOldest(folder, hash);
    return new ScoreCache(numLabels, { path: join(folder, hash) });
  } catch (error) {
    // Without a writable folder, later runs take longer, but this run still gets its result.
    if (error instanceof UserError) return new ScoreCache(numLabels);
    throw error;
  }
}

/** Removes the files that were not written to for longest, until the others fit in the limit. */
export function removeOldest(folder: string, kept: string, maxBytes = maxFolderBytes): void {
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => name !== kept) : [];
  const files = names
    .map((name) => ({ path: join(folder, name), stats: statSync(join(folder, name), { throwIfNoEntry: false }) }))
    .sort((a, b) => (b.stats?.mtimeMs ?? 0) - (a.stats?.mtimeMs ?? 0));
  let bytes = 0;
  for (const { path, stats } of files) {
    bytes += stats?.size ?? 0;
    if (bytes > maxBytes) rmSync(path, { force: true });
  }
}

function replaceFile(path: string, content: Uint8Array): void {
  const temporary = `${path}.${process.pid}.tmp`;
  writeFileSync(temporary, content);
  renameSync(temporary, path);
}

function computeChecksum(bytes: Uint8Array): number {
  let sum = 0x811c9dc5;
  for (const byte of bytes) sum = Math.imul(sum ^ byte, 0x01000193);
  return sum >>> 0;
}

/** Wraps a predictor so that every distinct text is computed once. */
export function rememberAnswers(predictor: Predictor, cache: ScoreCache): Predictor {
  const { returnsLogits = false } = predictor;
  return {
    ...predictor,
    async predict(items: readonly PreparedText[], { maxCallSize, onCall }: PredictOptions = {}) {
      const answers = new Array<Score>(items.length);
      /** The texts that are not in the cache, with the index of each in `keys`. */
      const unknown = new Map<string, number>();
      const keys: string[] = [];
      const missing: PreparedText[] = [];
      /** The indices of each of these texts. */
      const groups: number[][] = [];
      for (let i = 0; i < items.length; i++) {
        const key = computeContentKey(items[i]!.content);
        const known = cache.get(key);
        if (known) {
          answers[i] = createScore(known, returnsLogits);
          continue;
        }
        const at = unknown.get(key);
        if (at !== undefined) {
          groups[at]!.push(i);
          continue;
        }
        unknown.set(key, keys.length);
        keys.push(key);
        missing.push(items[i]!);
        groups.push([i]);
      }
      await predictInCalls(predictor, missing, {
        ...(maxCallSize !== undefined && { maxCallSize }),
        onCall(found) {
          const all = new Map<number, Score>();
          for (const [at, answer] of found) {
            cache.set(keys[at]!, getRow(answer));
            for (const i of groups[at]!) {
              answers[i] = answer;
              all.set(i, answer);
            }
          }
          onCall?.(all);
        },
      });
      return answers;
    },
  };
}
