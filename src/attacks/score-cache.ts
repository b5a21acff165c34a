import crypto from "node:crypto";
import { closeSync, fstatSync, mkdirSync, openSync, readSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { getCacheFolder } from "../cache.js";
import { UserError } from "../errors.js";
import { createFileError } from "../files.js";
import type { Victim } from "./victim.js";

/** Bytes of a key: half a SHA-256, far beyond any chance of two texts sharing one. */
const keyBytes = 16;
const checksumBytes = 4;

/** The key of a text's content. */
export function computeContentKey(content: string | Uint8Array): string {
  return sha256(content).slice(0, keyBytes);
}

/** In one call where Node has it (from 20.12 on): a hash object a text would be most of the garbage that an attack makes. */
const sha256: (content: string | Uint8Array) => string = crypto.hash
  ? (content) => crypto.hash("sha256", content, "binary")
  : (content) => crypto.createHash("sha256").update(content).digest("binary");

/** Rows of scores by key, in one block of numbers: small enough to hold a million. */
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
 * Scores by content, in bounded memory: two generations, the older dropped when the newer is full, which keeps what was used
 * lately. With a path, every new score is also appended to a file that later runs read. A record there is key, scores and a sum
 * over both, so that a torn or damaged one is left out.
 */
export class ScoreCache {
  #young: CacheGeneration;
  #old: CacheGeneration;
  #file: number | undefined;
  #waiting: Buffer[] = [];

  constructor(
    readonly numLabels: number,
    options: { readonly path?: string; readonly entries?: number } = {},
  ) {
    const capacity = Math.max(1, Math.floor((options.entries ?? 500_000) / 2));
    this.#young = new CacheGeneration(capacity, numLabels);
    this.#old = new CacheGeneration(capacity, numLabels);
    if (options.path !== undefined) this.#open(options.path);
  }

  get(key: string): Float32Array | undefined {
    const young = this.#young.rows.get(key);
    if (young !== undefined) return this.#row(this.#young, young);
    const old = this.#old.rows.get(key);
    if (old === undefined) return undefined;
    const scores = this.#row(this.#old, old);
    this.#remember(key, scores);
    return scores;
  }

  set(key: string, scores: ArrayLike<number>): void {
    this.#remember(key, scores);
    if (this.#file !== undefined) this.#waiting.push(this.#encode(key, scores));
  }

  /** Writes what is new to the file. */
  flush(): void {
    if (this.#file === undefined || this.#waiting.length === 0) return;
    const records = Buffer.concat(this.#waiting);
    this.#waiting = [];
    try {
      writeSync(this.#file, records);
    } catch {
      // A disk that is full costs later runs time, not this one its result.
      this.#leaveFile();
    }
  }

  close(): void {
    this.flush();
    this.#leaveFile();
  }

  #leaveFile(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  #remember(key: string, scores: ArrayLike<number>): void {
    if (this.#young.rows.size >= this.#young.capacity) {
      this.#old = this.#young;
      this.#young = new CacheGeneration(this.#old.capacity, this.numLabels);
    }
    const row = this.#young.rows.get(key) ?? this.#young.rows.size;
    this.#young.rows.set(key, row);
    this.#young.values.set(scores, row * this.numLabels);
  }

  #row(generation: CacheGeneration, row: number): Float32Array {
    return generation.values.slice(row * this.numLabels, (row + 1) * this.numLabels);
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

  /** Reads the newest records that memory holds, and leaves the file open for more. */
  #open(path: string): void {
    try {
      mkdirSync(dirname(path), { recursive: true });
      this.#file = openSync(path, "a+");
    } catch (error) {
      throw createFileError(error, path, "open the score cache");
    }
    const size = this.#recordBytes;
    const length = fstatSync(this.#file).size;
    // A torn record at the end, of a process that was killed, is filled up: the records stay aligned, and its sum is wrong.
    if (length % size !== 0) writeSync(this.#file, Buffer.alloc(size - (length % size)));
    const count = Math.floor(length / size);
    const first = Math.max(0, count - this.#young.capacity);
    const block = Buffer.alloc(size * Math.min(4096, Math.max(1, count)));
    for (let record = first; record < count; ) {
      const bytes = readSync(this.#file, block, 0, Math.min(block.length, (count - record) * size), record * size);
      if (bytes < size)
        throw new UserError(`${path}: the score cache became shorter while it was read; delete it and try again`);
      for (let at = 0; at + size <= bytes; at += size) this.#read(block.subarray(at, at + size));
      record += Math.floor(bytes / size);
    }
  }

  #read(record: Buffer): void {
    if (computeChecksum(record.subarray(0, -checksumBytes)) !== record.readUInt32LE(record.length - checksumBytes))
      return;
    const scores = Array.from({ length: this.numLabels }, (_, i) => record.readFloatLE(keyBytes + 4 * i));
    this.#remember(record.toString("latin1", 0, keyBytes), scores);
  }
}

/** The cache of a victim: on disk, shared by attacks and later runs, where its answers stay true; else in memory only. */
export function openScoreCache(victim: Pick<Victim, "numLabels" | "hash" | "isDeterministic">): ScoreCache {
  if (!victim.isDeterministic) return new ScoreCache(victim.numLabels);
  try {
    return new ScoreCache(victim.numLabels, { path: join(getCacheFolder(), "scores", victim.hash) });
  } catch (error) {
    // A folder that cannot be written costs time, not the result.
    if (error instanceof UserError) return new ScoreCache(victim.numLabels);
    throw error;
  }
}

/** FNV-1a, 32 bits. */
function computeChecksum(bytes: Uint8Array): number {
  let sum = 0x811c9dc5;
  for (const byte of bytes) sum = Math.imul(sum ^ byte, 0x01000193);
  return sum >>> 0;
}
