import type { ModifiableWords } from "../../attacks/convex-hull.js";
import { type Device, free, type HostTensor, keep, noGrad, operator, type Tensor, zeros } from "../../tensor/index.js";
import type { NamedTensors } from "../../train/index.js";

const indexCopyOp = operator<(self: Tensor, dim: number, index: Tensor, source: Tensor) => void>("index_copy_");

/**
 * The logits of the mixture of every modifiable word of the training set, as the last search left
 * them. Searches change them after the optimizer step, so that a step that runs twice, before its
 * graph is captured, starts at the same place.
 */
export class WarmStart {
  readonly #logits: Tensor; // [word of the training set + 1, candidate]; the last row is not used
  /** The first row of each example. */
  readonly #firstRows: Int32Array;
  /** Logits to store, by batch. */
  readonly #pending = new Map<string, { rows: Tensor; logits: Tensor }>();

  constructor(texts: readonly ModifiableWords[], candidatesPerWord: number, device: Device) {
    this.#firstRows = new Int32Array(texts.length + 1);
    for (const [i, { candidateIds }] of texts.entries())
      this.#firstRows[i + 1] = this.#firstRows[i]! + candidateIds.length;
    this.#logits = keep(zeros([this.#firstRows.at(-1)! + 1, candidatesPerWord], { device }));
  }

  buffers(): NamedTensors {
    return new Map([["ascc.logits", this.#logits]]);
  }

  /** The rows of the words of a batch. Padding reads and writes the last row. */
  getRows(examples: Int32Array, count: number): HostTensor {
    const values = new Int32Array(count).fill(this.#firstRows.at(-1)!);
    let at = 0;
    for (const example of examples)
      for (let row = this.#firstRows[example]!; row < this.#firstRows[example + 1]!; row++) values[at++] = row;
    return { values, shape: [count] };
  }

  read(rows: Tensor): Tensor {
    return this.#logits.indexSelect(0, rows);
  }

  /** Remembers the logits of a batch until the step is done. If it runs twice, the last count. */
  write(batch: string, rows: Tensor, logits: Tensor): void {
    free(this.#pending.get(batch));
    this.#pending.set(batch, keep({ rows: rows.clone().to("int64"), logits: logits.detach().clone() }));
  }

  commit(): void {
    for (const pending of this.#pending.values()) {
      noGrad(() => indexCopyOp(this.#logits, 0, pending.rows, pending.logits));
      free(pending);
    }
    this.#pending.clear();
  }
}
