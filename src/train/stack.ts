import { UserError } from "../errors.js";
import type { Weights } from "../nn/index.js";
import { selectAll, taskLosses, totalGradients } from "./base.js";
import type { Gradients, Layer, Losses, Pass, Selected, Step, Update } from "./layer.js";

/** Layers over standard fine-tuning, innermost first: each hook starts at the outermost layer that has it. */
export class Stack {
  readonly layers: readonly Layer[];
  readonly #outermostFirst: readonly Layer[];

  constructor(layers: readonly Layer[]) {
    this.layers = layers;
    this.#outermostFirst = [...layers].reverse();
  }

  /** Refuses a list of methods that cannot work together, with the reason. */
  check(run: Parameters<NonNullable<Layer["refuses"]>>[1]): void {
    const owners = new Map<string, { layer: string; doing: string }>();
    for (const [i, layer] of this.layers.entries()) {
      if (this.layers.some((other, j) => j < i && other.name === layer.name))
        throw new UserError(`method: ${layer.name} is named twice; name it once`);
      for (const [role, doing] of Object.entries(layer.owns ?? {})) {
        const owner = owners.get(role);
        if (owner)
          throw new UserError(
            `method: ${layer.name} cannot go with ${owner.layer}: ${layer.name} ${doing}, and ${owner.layer} ${owner.doing}; leave one of them out`,
          );
        owners.set(role, { layer: layer.name, doing });
      }
      const reason = layer.refuses?.(this.layers.slice(0, i), run);
      if (reason) throw new UserError(`method: ${layer.name}: ${reason}`);
    }
  }

  weights(pass: Pass, leaves: Weights): Weights {
    return this.#chain(
      "weights",
      (layer, next: () => Weights) => layer.weights?.(pass, next),
      () => leaves,
    );
  }

  losses(step: Step): Losses {
    return this.#perStep("losses", step, taskLosses);
  }

  gradients(step: Step): Gradients {
    return this.#perStep("gradients", step, (at) => totalGradients(at, this.losses(at)));
  }

  select(update: Update): Selected {
    return this.#chain(
      "select",
      (layer, next: () => Selected) => layer.select?.(update, next),
      () => selectAll(update),
    );
  }

  after(update: Update): void {
    this.#chain(
      "after",
      (layer, next: () => true) => {
        layer.after?.(update, next);
        return true as const;
      },
      () => true as const,
    );
  }

  /** Which work an update does: equal phases do the same. */
  phase(update: number): string {
    return this.layers.map((layer) => layer.phase?.(update) ?? "").join("|");
  }

  #chain<T>(hook: keyof Layer, call: (layer: Layer, next: () => T) => T | undefined, base: () => T): T {
    const having = this.#outermostFirst.filter((layer) => layer[hook]);
    const from = (i: number): T => {
      const layer = having[i];
      return layer ? (call(layer, () => from(i + 1)) as T) : base();
    };
    return from(0);
  }

  #perStep<T>(hook: "losses" | "gradients", step: Step, base: (step: Step) => T): T {
    const having = this.#outermostFirst.filter((layer) => layer[hook]);
    const from = (i: number, at: Step): T => {
      const layer = having[i];
      if (!layer) return base(at);
      const next = (other: Step = at): T => from(i + 1, other);
      return (hook === "losses" ? layer.losses?.(at, next as never) : layer.gradients?.(at, next as never)) as T;
    };
    return from(0, step);
  }
}
