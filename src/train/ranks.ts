import {
  type BatchRows,
  cat,
  type GradientReducer,
  noGrad,
  type ProcessGroup,
  scope,
  type Tensor,
  tensor,
} from "../tensor/index.js";

/** The rows of a global batch that one process computes. */
export interface RankRows extends BatchRows {
  /** The fraction of the global batch; 0 if the process only repeats a row of another one. */
  readonly weight: number;
}

/**
 * The processes that train together. Each computes some rows of every batch, so that their sum is
 * the update of a single process with the same batch. Process 0 reads and writes all files.
 */
export interface Ranks {
  readonly rank: number;
  readonly size: number;
  /** This process's rows of a batch; null if there is only one process. */
  getRows(batchSize: number): RankRows | null;
  /** Adds the tensors of all processes, in place. */
  sum_(tensors: readonly Tensor[]): void;
  /**
   * Prepares to sum the gradients of parameters on a CPU while they are computed; null if there is
   * only one process.
   */
  createReducer(parameters: readonly Tensor[]): GradientReducer | null;
  /** Copies the tensors of process 0 to all others, in place. */
  broadcast_(tensors: Iterable<Tensor>): void;
  /**
   * The rows of all processes, in the order of the global batch. Gradients flow to the rows of this
   * process; they are scaled so that a loss over all rows counts once, not once per process.
   */
  gatherRows(tensor: Tensor, rows: RankRows | null): Tensor;
  /** Collects plain data from every process. */
  exchange<T>(value: T): T[];
  /** Collects numbers from every process. */
  exchangeFloats(values: Float32Array): Float32Array[];
  /** Seconds that this process has waited for others so far. */
  getWaitedSeconds(): number;
  /** Whether any process says so. All processes get the same answer. */
  any(flag: boolean): boolean;
}

/** A training in one process. Nothing is exchanged. */
export const singleRank: Ranks = {
  rank: 0,
  size: 1,
  getRows: () => null,
  sum_() {},
  createReducer: () => null,
  broadcast_() {},
  gatherRows: (tensor) => tensor,
  exchange: (value) => [value],
  exchangeFloats: (values) => [values],
  getWaitedSeconds: () => 0,
  any: (flag) => flag,
};

/** The processes of a group. */
export function createRanks(group: ProcessGroup): Ranks {
  const { rank, size } = group;
  const exchange = <T>(value: T): T[] =>
    group
      .gatherBytes(new TextEncoder().encode(JSON.stringify(value)))
      .map((bytes) => JSON.parse(new TextDecoder().decode(bytes)) as T);
  return {
    rank,
    size,
    getRows: (batchSize) => splitRows(batchSize, rank, size),
    sum_: (tensors) => group.sum_(tensors),
    createReducer: (parameters) => group.createReducer(parameters),
    broadcast_: (tensors) =>
      // A parameter is a leaf, which must not record that it is overwritten.
      scope(() => noGrad(() => group.broadcast_(Array.from(tensors, (item) => item.detach())))),
    gatherRows(own, rows) {
      if (!rows) return own;
      const width = Math.ceil(rows.total / size);
      const constant = own.detach();
      const missing = width - constant.size(0);
      // All processes send equally many rows. The last ones of some are not used.
      const sent =
        missing > 0 ? cat([constant, ...Array<Tensor>(missing).fill(constant.narrow(0, 0, 1))], 0) : constant;
      const received = noGrad(() => group.gather(sent.contiguous()));
      const parts = Array.from({ length: size }, (_, other) => {
        const { count, weight } = splitRows(rows.total, other, size);
        if (weight === 0) return [];
        if (other === rank) return [own.requiresGrad ? scaleGradient(own, 1 / weight) : constant];
        return [received.select(0, other).narrow(0, 0, count)];
      });
      return cat(parts.flat(), 0);
    },
    exchange,
    exchangeFloats: (values) =>
      group
        .gatherBytes(new Uint8Array(values.buffer, values.byteOffset, values.byteLength))
        .map((bytes) => new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4)),
    getWaitedSeconds: () => group.waitedSeconds,
    any: (flag) =>
      scope(() => {
        const count = tensor([flag ? 1 : 0]);
        group.sum_([count]);
        return count.item() > 0;
      }),
  };
}

/** The same values; their gradient is multiplied by a factor: x + (x - x) * factor. */
function scaleGradient(tensor: Tensor, factor: number): Tensor {
  const constant = tensor.detach();
  return constant.add(tensor.sub(constant).mul(factor));
}

/**
 * Splits a batch into contiguous rows per process. A process for which no row is left repeats the
 * first row with weight 0, so that it takes part in every collective.
 */
export function splitRows(total: number, rank: number, size: number): RankRows {
  const width = Math.ceil(total / size);
  const start = Math.min(total, rank * width);
  const count = Math.min(total, start + width) - start;
  return count === 0 ? { start: 0, count: 1, total, weight: 0 } : { start, count, total, weight: count / total };
}
