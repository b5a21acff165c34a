import { UserError } from "../../base/errors.js";
import { type Environment, hashExamples } from "../../runs/environment.js";
import type { RunConfig } from "../../settings/config.js";
import { flattenConfig } from "../../settings/config-identity.js";
import type { Example } from "../../tasks/index.js";
import type { Ranks } from "../../train/index.js";

/** Rejects a batch that the processes cannot share equally. */
export function checkBatchSize(size: number, { train: { batchSize } }: Pick<RunConfig, "train">): void {
  if (batchSize % size === 0) return;
  throw new UserError(
    `train.batchSize ${batchSize} is the batch of all processes together, and ${size} processes cannot share it ` +
      `equally. Use a multiple of ${size}, such as ${Math.ceil(batchSize / size) * size}, or fewer processes.`,
  );
}

/**
 * Compares the settings of all processes, before anything is loaded. Returns whether process 0
 * found a finished run.
 */
export function checkSameSettings(ranks: Ranks, config: RunConfig, isFinished: boolean): boolean {
  rejectDifferences(ranks.exchange(Object.fromEntries(flattenConfig(config))));
  return ranks.exchange(isFinished)[0]!;
}

/** Compares what all processes have loaded, by hash. */
export function checkSameInputs(ranks: Ranks, environment: Environment, test: readonly Example[]): void {
  if (ranks.size === 1) return;
  const { temper, libtorch, precision, model, tokenizer, data, substitutions } = environment;
  const values = {
    "version of Temper": temper,
    "version of libtorch": libtorch,
    precision,
    model: model.hash,
    tokenizer,
    "training data": data.train,
    "validation data": data.validation ?? "",
    "test data": hashExamples(test),
    substitutions: substitutions ?? "",
  };
  rejectDifferences(ranks.exchange(values));
}

/** All processes throw the same error. */
function rejectDifferences(all: readonly Readonly<Record<string, string>>[]): void {
  const [first = {}, ...others] = all;
  const differences = others.flatMap((values, i) =>
    Object.keys(first)
      .filter((key) => values[key] !== first[key])
      .map((key) => `${key} (rank 0: ${shorten(first[key])}, rank ${i + 1}: ${shorten(values[key])})`),
  );
  if (differences.length === 0) return;
  throw new UserError(
    `The processes differ in ${differences.slice(0, 5).join("; ")}. Start all with the same settings and data.`,
  );
}

function shorten(value = "none"): string {
  return value.length > 40 ? `${value.slice(0, 12)}…` : value;
}
