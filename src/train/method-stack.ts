import { UserError } from "../errors.js";
import type { Weights } from "../nn/index.js";
import { computeTaskLosses, computeTotalGradients, createUnmaskedUpdates } from "./standard-fine-tuning.js";
import type {
  BatchContext,
  ForwardPass,
  Gradients,
  Losses,
  OptimizerStep,
  ParameterUpdates,
  TrainingMethod,
} from "./training-method.js";

/** Layers over standard fine-tuning, innermost first: each hook starts at the outermost layer that has it. */
export class MethodStack {
  readonly methods: readonly TrainingMethod[];
  readonly #outermostFirst: readonly TrainingMethod[];

  constructor(methods: readonly TrainingMethod[]) {
    this.methods = methods;
    this.#outermostFirst = [...methods].reverse();
  }

  /** Refuses a list of methods that cannot work together, with the reason. */
  checkCompatibility(run: Parameters<NonNullable<TrainingMethod["checkCompatibility"]>>[1]): void {
    const owners = new Map<string, { layer: string; doing: string }>();
    for (const [i, layer] of this.methods.entries()) {
      if (this.methods.some((other, j) => j < i && other.name === layer.name))
        throw new UserError(`method: ${layer.name} is named twice; name it once`);
      for (const [role, doing] of Object.entries(layer.exclusiveRoles ?? {})) {
        const owner = owners.get(role);
        if (owner)
          throw new UserError(
            `method: ${layer.name} cannot go with ${owner.layer}: ${layer.name} ${doing}, and ${owner.layer} ${owner.doing}; leave one of them out`,
          );
        owners.set(role, { layer: layer.name, doing });
      }
      const reason = layer.checkCompatibility?.(this.methods.slice(0, i), run);
      if (reason) throw new UserError(`method: ${layer.name}: ${reason}`);
    }
  }

  weights(pass: ForwardPass, leaves: Weights): Weights {
    return this.#chain(
      "weights",
      (layer, next: () => Weights) => layer.weights?.(pass, next),
      () => leaves,
    );
  }

  losses(step: BatchContext): Losses {
    return this.#perStep("losses", step, computeTaskLosses);
  }

  gradients(step: BatchContext): Gradients {
    return this.#perStep("gradients", step, (at) => computeTotalGradients(at, this.losses(at)));
  }

  transformUpdates(update: OptimizerStep): ParameterUpdates {
    return this.#chain(
      "transformUpdates",
      (layer, next: () => ParameterUpdates) => layer.transformUpdates?.(update, next),
      () => createUnmaskedUpdates(update),
    );
  }

  afterStep(update: OptimizerStep): void {
    this.#chain(
      "afterStep",
      (layer, next: () => true) => {
        layer.afterStep?.(update, next);
        return true as const;
      },
      () => true as const,
    );
  }

  /** Which work an update does: equal phases do the same. */
  graphKey(update: number): string {
    return this.methods.map((layer) => layer.graphKey?.(update) ?? "").join("|");
  }

  #chain<T>(
    hook: keyof TrainingMethod,
    call: (layer: TrainingMethod, next: () => T) => T | undefined,
    base: () => T,
  ): T {
    const having = this.#outermostFirst.filter((layer) => layer[hook]);
    const from = (i: number): T => {
      const layer = having[i];
      return layer ? (call(layer, () => from(i + 1)) as T) : base();
    };
    return from(0);
  }

  #perStep<T>(hook: "losses" | "gradients", step: BatchContext, base: (step: BatchContext) => T): T {
    const having = this.#outermostFirst.filter((layer) => layer[hook]);
    const from = (i: number, at: BatchContext): T => {
      const layer = having[i];
      if (!layer) return base(at);
      const next = (other: BatchContext = at): T => from(i + 1, other);
      return (hook === "losses" ? layer.losses?.(at, next as never) : layer.gradients?.(at, next as never)) as T;
    };
    return from(0, step);
  }
}
