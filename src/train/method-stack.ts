import { UserError } from "../base/errors.js";
import type { Weights } from "../nn/index.js";
import type { Example } from "../tasks/example.js";
import type { Task } from "../tasks/task.js";
import type { Rng } from "../tensor/index.js";
import {
  computeTaskGradients,
  computeTaskLosses,
  computeTotalGradients,
  createUnmaskedUpdates,
} from "./standard-fine-tuning.js";
import type {
  BatchContext,
  ForwardPass,
  Gradients,
  Losses,
  OptimizerStep,
  ParameterUpdates,
  TrainingJob,
  TrainingMethod,
} from "./training-method.js";

function createConflict(
  one: Readonly<Record<"name" | "task", string>>,
  other: Readonly<Record<"name" | "task", string>>,
): UserError {
  return new UserError(
    `methods: ${one.name} cannot be combined with ${other.name}: ` +
      `${one.name} ${one.task}, and ${other.name} ${other.task}. Remove one of them.`,
  );
}

/** Methods on standard fine-tuning, innermost first. A hook starts at the outermost method. */
export class MethodStack {
  readonly methods: readonly TrainingMethod[];
  readonly #outermostFirst: readonly TrainingMethod[];

  constructor(methods: readonly TrainingMethod[]) {
    this.methods = methods;
    this.#outermostFirst = [...methods].reverse();
  }

  checkCompatibility(job: TrainingJob): void {
    const owners = new Map<string, Readonly<Record<"name" | "task", string>>>();
    const freezing = this.methods.find(({ traits }) => traits?.exclusiveRoles?.training);
    for (const [i, method] of this.methods.entries()) {
      const { name } = method;
      if (this.methods.some((other, j) => j < i && other.name === name))
        throw new UserError(`methods: ${name} is listed twice. List it once.`);
      for (const [role, task] of Object.entries(method.traits?.exclusiveRoles ?? {})) {
        const owner = owners.get(role);
        if (owner) throw createConflict({ name, task }, owner);
        owners.set(role, { name, task });
      }
      const { needsAllWeights } = method.traits ?? {};
      if (freezing && needsAllWeights !== undefined)
        throw createConflict(
          { name, task: needsAllWeights },
          { name: freezing.name, task: freezing.traits!.exclusiveRoles!.training! },
        );
      const reason = method.checkCompatibility?.(this.methods.slice(0, i), job);
      if (reason) throw new UserError(`methods: ${name}: ${reason}`);
    }
  }

  weights(pass: ForwardPass, parameters: Weights): Weights {
    return this.#chain("weights", pass, () => parameters);
  }

  losses(context: BatchContext): Losses {
    return this.#chain("losses", context, computeTaskLosses);
  }

  gradients(context: BatchContext): Gradients {
    return this.#chain("gradients", context, (inner) => {
      const losses = this.losses(inner);
      const task = computeTaskGradients(inner, losses, this.methods);
      return { ...computeTotalGradients(inner, losses), auxiliary: task };
    });
  }

  transformUpdates(step: OptimizerStep): ParameterUpdates {
    return this.#chain("transformUpdates", step, createUnmaskedUpdates);
  }

  afterStep(step: OptimizerStep): void {
    this.#chain("afterStep", step, () => undefined);
  }

  hasHook(hook: "gradients" | "transformUpdates" | "afterStep"): boolean {
    return this.methods.some((method) => method[hook]);
  }

  getGraphKey(stepIndex: number): string {
    return this.methods.map((method) => method.traits?.graphKey?.(stepIndex) ?? "").join("|");
  }

  #chain<Argument, Result>(
    hook: "weights" | "losses" | "gradients" | "transformUpdates" | "afterStep",
    argument: Argument,
    base: (argument: Argument) => Result,
  ): Result {
    const methods = this.#outermostFirst.filter((method) => method[hook]);
    const callFrom = (i: number, current: Argument): Result => {
      const method = methods[i];
      if (!method) return base(current);
      const next = (other: Argument = current): Result => callFrom(i + 1, other);
      return method[hook]?.(current as never, next as never) as Result;
    };
    return callFrom(0, argument);
  }
}

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
