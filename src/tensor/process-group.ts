import { getErrorMessage, UserError } from "../base/errors.js";
import { sleepSync } from "../base/processes.js";
import { noGrad } from "./autograd.js";
import { empty, tensor } from "./create.js";
import { type NativeDistributed, nativeDistributed } from "./native.js";
import { foreachMulScalar_ } from "./ops.js";
import { scope } from "./scope.js";
import type { Tensor } from "./tensor.js";
import type { Device } from "./types.js";

export interface Rendezvous {
  readonly rank: number;
  readonly size: number;
  readonly host: string;
  readonly port: number;
  /** False if another program hosts the store, as `torchrun` does. Otherwise rank 0 hosts it. */
  readonly hasStore?: boolean;
  /** A secret of the processes. It is part of every key of the store. */
  readonly secret?: string;
  /** The longest wait for another process, in seconds. */
  readonly timeout: number;
}

/** A process without a sign of life for this many seconds counts as dead. */
const silence = 3;

/** Gradients are reduced in buckets of this size, as in PyTorch. */
const bucketBytes = 25 * 2 ** 20;

/**
 * A process group of c10d: Gloo for CPU tensors, NCCL for GPU tensors. All processes must call the
 * same functions in the same order. If a peer dies, the error names it.
 */
export class ProcessGroup {
  readonly rank: number;
  readonly size: number;
  readonly #rendezvous: Rendezvous;
  readonly #native: NativeDistributed;
  readonly #host: number;
  #gpu: number | null = null;
  #isOpen = true;
  waitedSeconds = 0;

  static open(rendezvous: Rendezvous): ProcessGroup {
    const { rank, size, host, port, timeout, hasStore = true, secret = "" } = rendezvous;
    const native = nativeDistributed();
    try {
      native.storeOpen(host, port, hasStore && rank === 0, timeout, secret);
    } catch (error) {
      const reason = getErrorMessage(error);
      throw new UserError(
        rank === 0 && hasStore
          ? `Rank 0 cannot listen at ${host}:${port}: ${reason}. Choose another MASTER_PORT.`
          : `Rank ${rank} found no store at ${host}:${port} within ${timeout} s. Rank 0 hosts it: check that ` +
              "rank 0 was started, and that MASTER_ADDR and MASTER_PORT are the same everywhere.",
        { cause: error },
      );
    }
    try {
      native.heartbeatStart(host, port, rank, size);
      waitForPeers(native, rendezvous);
      return new ProcessGroup(rendezvous, native);
    } catch (error) {
      native.storeClose();
      throw error;
    }
  }

  private constructor(rendezvous: Rendezvous, native: NativeDistributed) {
    this.rank = rendezvous.rank;
    this.size = rendezvous.size;
    this.#rendezvous = rendezvous;
    this.#native = native;
    this.#host = this.#open("gloo");
  }

  #open(backend: "gloo" | "nccl"): number {
    const { rank, size, host, timeout } = this.#rendezvous;
    return this.#guard(() => this.#native.groupOpen(backend, rank, size, host, timeout));
  }

  #getBackend(device: Device): number {
    if (device === "cpu") return this.#host;
    if (!this.#native.hasNccl)
      throw new UserError("The native addon was built without NCCL. Install its headers and run `npx temper setup`.");
    this.#gpu ??= this.#open("nccl");
    return this.#gpu;
  }

  /** Replaces each tensor by its mean over all processes. The buckets are reduced concurrently. */
  average_(tensors: readonly Tensor[]): void {
    const works = splitIntoBuckets(tensors).map((bucket) => {
      const handles = bucket.map(({ handle }) => handle);
      return this.#start(bucket[0]!.device, (backend) => this.#native.groupReduce(backend, handles));
    });
    for (const wait of works) wait();
    noGrad(() => foreachMulScalar_(tensors, 1 / this.size));
  }

  broadcast_(tensors: Iterable<Tensor>): void {
    // A parameter is a leaf, which must not record that it is overwritten.
    scope(() => {
      for (const { handle, device } of noGrad(() => Array.from(tensors, (item) => item.detach())))
        this.#run(device, (backend) => this.#native.groupBroadcast(backend, handle));
    });
  }

  /** Collects a tensor of the same shape and dtype from every process: [size, …]. */
  #gather(input: Tensor): Tensor {
    const { device, dtype, shape } = input;
    const output = empty([this.size, ...shape], { device, dtype });
    this.#run(device, (backend) => this.#native.groupGather(backend, output.handle, input.handle));
    return output;
  }

  gatherBytes(bytes: Uint8Array): Uint8Array[] {
    return scope(() => {
      const lengths = this.#gather(tensor(Int32Array.of(bytes.length), [1])).toInt32Array();
      const width = Math.max(1, ...lengths);
      const padded = new Uint8Array(width);
      padded.set(bytes);
      const all = this.#gather(tensor(padded, [width], { dtype: "uint8" })).toBytes();
      return Array.from(lengths, (length, i) => all.slice(i * width, i * width + length));
    });
  }

  exchange<T>(value: T): T[] {
    return this.gatherBytes(Buffer.from(JSON.stringify(value))).map(
      (bytes) => JSON.parse(Buffer.from(bytes).toString()) as T,
    );
  }

  any(flag: boolean): boolean {
    return scope(() => {
      const mean = tensor([flag ? 1 : 0]);
      this.average_([mean]);
      return mean.item() > 0;
    });
  }

  #start(device: Device, start: (backend: number) => number): () => void {
    const backend = this.#getBackend(device);
    const work = this.#guard(() => start(backend));
    return () => {
      const started = performance.now();
      this.#guard(() => this.#native.workWait(work, this.#rendezvous.timeout, device !== "cpu"));
      this.waitedSeconds += (performance.now() - started) / 1000;
    };
  }

  #run(device: Device, start: (backend: number) => number): void {
    this.#start(device, start)();
  }

  /** Turns an error of c10d into one that names the process that caused it. */
  #guard<T>(call: () => T): T {
    try {
      return call();
    } catch (error) {
      if (!this.#isOpen) throw error;
      const explained = this.#explain(error);
      this.#leave(explained.message);
      throw explained;
    }
  }

  #explain(error: unknown): Error {
    const native = this.#native;
    const others = Array.from({ length: this.size }, (_, rank) => rank).filter((rank) => rank !== this.rank);
    const readCounts = (): number[] => others.map((rank) => native.storeCount(`alive/${rank}`));
    try {
      const before = readCounts();
      const deadline = performance.now() + 1000 * silence;
      while (performance.now() < deadline) {
        for (const rank of others) {
          const message = native.storeGet(`failure/${rank}`);
          if (message !== null)
            return new PeerError(`Rank ${rank} of ${this.size} stopped: ${message}`, { cause: error });
        }
        sleepSync(100);
      }
      const after = readCounts();
      const dead = others.filter((_, i) => before[i] === after[i]);
      if (dead.length > 0)
        return new PeerError(`${formatRanks(dead, this.size)} has died. All processes stop; continue with --resume.`, {
          cause: error,
        });
    } catch {
      return new PeerError(
        `Rank 0 of ${this.size}, which hosts the store, has died. All processes stop; continue with --resume.`,
        { cause: error },
      );
    }
    return new Error(`The processes lost each other: ${getErrorMessage(error)}`, { cause: error });
  }

  fail(error: unknown): void {
    if (this.#isOpen) this.#leave(getErrorMessage(error));
  }

  #leave(reason: string): void {
    this.#isOpen = false;
    try {
      this.#native.storeSet(`failure/${this.rank}`, reason);
      this.#native.storeSet("failed", "1");
      // The others read the reason from the store of rank 0.
      if (this.rank === 0 && this.#rendezvous.hasStore !== false) sleepSync(1000 * (silence + 1));
    } catch {
      // The store has ended, so nobody can be told.
    }
  }

  /** Ends the group after its last collective. Rank 0 waits for the others. */
  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    const native = this.#native;
    native.storeSet(`left/${this.rank}`, "");
    if (this.rank === 0)
      for (let rank = 1; rank < this.size; rank++) native.storeWait(`left/${rank}`, this.#rendezvous.timeout);
    for (const group of [this.#gpu, this.#host]) if (group !== null) native.groupClose(group);
    native.storeClose();
  }
}

function waitForPeers(native: NativeDistributed, { rank, size, timeout }: Rendezvous): void {
  native.storeSet(`joined/${rank}`, String(size));
  const deadline = performance.now() + 1000 * timeout;
  const missing: number[] = [];
  for (let other = 0; other < size; other++) {
    const joined = native.storeWait(`joined/${other}`, Math.max(0, (deadline - performance.now()) / 1000));
    if (joined === null) missing.push(other);
    else if (Number(joined) !== size)
      throw new UserError(
        `Rank ${other} has WORLD_SIZE ${joined}, but rank ${rank} has ${size}. Start all processes with the same one.`,
      );
  }
  if (missing.length > 0)
    throw new UserError(
      `${formatRanks(missing, size)} did not start within ${timeout} s. ` +
        `Start all ${size} processes, or a smaller group.`,
    );
}

/** Another process ended first. It has already reported the reason. */
class PeerError extends UserError {
  override name = "PeerError";
}

function splitIntoBuckets(tensors: readonly Tensor[]): Tensor[][] {
  const buckets: Tensor[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const item of tensors) {
    const size = 4 * item.numel;
    const last = buckets.at(-1)?.at(-1);
    if (bytes + size > bucketBytes || last?.device !== item.device || last.dtype !== item.dtype) {
      buckets.push([]);
      bytes = 0;
    }
    buckets.at(-1)!.push(item);
    bytes += size;
  }
  return buckets;
}

function formatRanks(ranks: readonly number[], size: number): string {
  return `Rank${ranks.length > 1 ? "s" : ""} ${ranks.join(" and ")} of ${size}`;
}
