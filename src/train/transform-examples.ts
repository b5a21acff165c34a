import { UserError } from "../base/errors.js";
import type { Example } from "../tasks/example.js";
import type { Task } from "../tasks/task.js";
import type { Rng } from "../tensor/index.js";
import type { TrainingMethod } from "./training-method.js";

/** Replaces the examples of a split by those that the methods train on, innermost first. */
export function transformExamples(
  methods: readonly TrainingMethod[],
  examples: readonly Example[],
  task: Task,
  rng: Rng,
): readonly Example[] {
  const transformed = methods.reduce(
    (current, method) => method.transformExamples?.(current, task, rng.fork("examples", method.name)) ?? current,
    examples,
  );
  if (transformed.length === 0)
    throw new UserError(`methods: no text has a word to train on. Use texts with words, or other methods.`);
  return transformed;
}
