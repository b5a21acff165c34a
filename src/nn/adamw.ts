import { UserError } from "../base/errors.js";
import {
  arange,
  free,
  keep,
  lerp,
  noGrad,
  operator,
  runOnParallelStreams,
  scope,
  stack,
  type Tensor,
  zeros,
  zerosLike,
} from "../tensor/index.js";
import { type FusedAdam, fusedAdamW, hasFusedAdamW } from "./fused-adamw.js";

const fusedAdamWOp = operator<FusedAdam<Tensor>>("_fused_adamw_", "tensor_lr");

export interface AdamWSettings {
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  /**
   * "corrected": m / (sqrt(v / c2) + epsilon) as in PyTorch, with c2 = 1 - beta2^step. "uncorrected":
   * m sqrt(c2) / (sqrt(v) + epsilon) as in the older AdamW of transformers.
   */
  readonly epsilonMode: "corrected" | "uncorrected";
}

export const defaultAdamW: AdamWSettings = { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, epsilonMode: "corrected" };

/** Parameters with the same weight decay and learning rate. */
export interface ParameterGroup {
  readonly names: readonly string[];
  readonly weightDecay: number;
  /** The peak learning rate, which a schedule multiplies by a factor. */
  readonly learningRate: number;
}

/**
 * The gradient of a parameter, and a mask that multiplies the final change (ROSE, Algorithm 1, line
 * 13), with one element or one per element of the parameter; null: no mask.
 */
export interface ParameterUpdate {
  readonly gradient: Tensor;
  readonly mask: Tensor | null;
}

interface ParameterState {
  readonly parameter: Tensor;
  readonly firstMoment: Tensor;
  readonly secondMoment: Tensor;
}

interface MaskedUpdate {
  readonly state: ParameterState;
  readonly gradient: Tensor;
  readonly mask: Tensor;
}

/**
 * AdamW with decoupled weight decay. The learning rate and the step count are tensors, so that a
 * captured step can be replayed with other values.
 *
 * @example
 * const group = { names: [...weights.keys()], weightDecay: 0.01, learningRate: 1e-4 };
 * const optimizer = new AdamW(weights, [group]);
 * optimizer.setLearningRateFactor(1);
 * optimizer.update(new Map([["classifier.weight", { gradient, mask: null }]]));
 */
export class AdamW {
  readonly settings: AdamWSettings;
  readonly #groups: { group: ParameterGroup; learningRate: Tensor }[];
  readonly #states: ReadonlyMap<string, ParameterState>;
  readonly step: Tensor;

  constructor(
    parameters: ReadonlyMap<string, Tensor>,
    groups: readonly ParameterGroup[],
    settings: AdamWSettings = defaultAdamW,
  ) {
    this.settings = settings;
    const device = [...parameters.values()][0]?.device ?? "cpu";
    // Everything is kept only after all of it is created, because memory may run out in between.
    const { step, learningRates, states } = noGrad(() =>
      scope(() => {
        const names = groups.flatMap((group) => group.names);
        const created = names.map((name): [string, ParameterState] => {
          const parameter = parameters.get(name);
          if (!parameter) throw new Error(`the optimizer received no parameter ${name}`);
          return [name, { parameter, firstMoment: zerosLike(parameter), secondMoment: zerosLike(parameter) }];
        });
        const rest = { step: zeros([], { device }), learningRates: groups.map(() => zeros([], { device })) };
        keep([rest, created.map(([, { firstMoment, secondMoment }]) => [firstMoment, secondMoment])]);
        return { ...rest, states: created };
      }),
    );
    this.step = step;
    this.#groups = groups.map((group, i) => ({ group, learningRate: learningRates[i]! }));
    this.#states = new Map(states);
  }

  /** The first moment m of a parameter, without bias correction, for ROSE's second-order risk. */
  firstMoment(name: string): Tensor {
    return this.#getState(name).firstMoment;
  }

  #getState(name: string): ParameterState {
    const state = this.#states.get(name);
    if (!state) throw new Error(`the optimizer has no parameter ${name}`);
    return state;
  }

  moments(): Map<string, Tensor> {
    return new Map(
      [...this.#states].flatMap(([name, state]): [string, Tensor][] => [
        [`first.${name}`, state.firstMoment],
        [`second.${name}`, state.secondMoment],
      ]),
    );
  }

  dispose(): void {
    free([this.step, ...this.#groups.map((entry) => entry.learningRate), ...this.moments().values()]);
  }

  /** Sets the learning rate of the next steps to the peak rate of each group times a factor. */
  setLearningRateFactor(factor: number): void {
    for (const { group, learningRate } of this.#groups) learningRate.fill_(factor * group.learningRate);
  }

  /** Does one step. Parameters without an update keep their values and moments. */
  update(updates: ReadonlyMap<string, ParameterUpdate>): void {
    noGrad(() =>
      scope(() => {
        this.step.add_(1);
        for (const { group, learningRate } of this.#groups) {
          const names = group.names.filter((name) => updates.has(name));
          if (names.length > 0) this.#updateGroup(names, updates, group.weightDecay, learningRate);
        }
      }),
    );
  }

  /**
   * Does one step in one pass over the memory of a GPU: multiplies gradients in float32 or bfloat16 by the
   * clip factor, and writes the new parameters to their bfloat16 copies, too.
   */
  updateAndCopy(
    gradients: ReadonlyMap<string, Tensor>,
    clipFactor: Tensor | null,
    getCopy: (parameter: Tensor) => Tensor | null,
  ): void {
    noGrad(() =>
      scope(() => {
        this.step.add_(1);
        for (const { group, learningRate } of this.#groups) {
          const all = group.names
            .filter((name) => gradients.has(name))
            .map((name) => ({ ...this.#getState(name), gradient: gradients.get(name) as Tensor }))
            .map((state) => ({ ...state, copy: getCopy(state.parameter) }));
          const { weightDecay } = group;
          const constants = { ...this.settings, weightDecay, learningRate, clipFactor, step: this.step };
          for (const part of [all.filter(({ copy }) => copy), all.filter(({ copy }) => !copy)])
            if (part.length > 0) fusedAdamW(part, constants);
        }
      }),
    );
  }

  #updateGroup(
    names: readonly string[],
    updates: ReadonlyMap<string, ParameterUpdate>,
    weightDecay: number,
    learningRate: Tensor,
  ): void {
    const all = names.map((name) => ({ state: this.#getState(name), ...(updates.get(name) as ParameterUpdate) }));
    const unmasked = all.filter(({ mask }) => mask === null);
    const states = unmasked.map(({ state }) => state);
    const gradients = unmasked.map(({ gradient }) => gradient);
    if (unmasked.length > 0) this.#apply(states, gradients, weightDecay, learningRate);
    const masked = all.filter((update): update is MaskedUpdate => update.mask !== null);
    const isSingle = ({ mask }: MaskedUpdate): boolean => mask.numel === 1;
    this.#applySingleMasks(masked.filter(isSingle), weightDecay, learningRate);
    for (const update of masked) if (!isSingle(update)) this.#applyElementMask(update, weightDecay, learningRate);
  }

  /**
   * Updates parameters whose mask has one element. It scales the learning rate, to which the change
   * with its weight decay is proportional, so masks of 1 and 0 are exact.
   */
  #applySingleMasks(updates: readonly MaskedUpdate[], weightDecay: number, learningRate: Tensor): void {
    if (updates.length === 0) return;
    const masks = updates.map(({ mask }) => mask.reshape());
    const learningRates = stack(masks, 0).mul(learningRate);
    runOnParallelStreams(
      learningRates.device,
      updates.map(({ state, gradient }, i) => {
        const maskedRate = learningRates.select(0, i);
        // Created here, because tasks on parallel streams must not allocate memory.
        const contiguous = gradient.contiguous();
        return () => this.#apply([state], [contiguous], weightDecay, maskedRate);
      }),
    );
  }

  #applyElementMask({ state, gradient, mask }: MaskedUpdate, weightDecay: number, learningRate: Tensor): void {
    scope(() => {
      const before = state.parameter.clone();
      this.#apply([state], [gradient], weightDecay, learningRate);
      // lerp is exact at both ends.
      state.parameter.copy_(lerp(before, state.parameter, mask));
    });
  }

  /** The epsilon of libtorch's operator for this step; null if the host does not know it. */
  #getFixedEpsilon(): number | null {
    const { beta2, epsilon, epsilonMode } = this.settings;
    if (epsilonMode === "corrected") return epsilon;
    return this.step.device === "cpu" ? epsilon / Math.sqrt(1 - beta2 ** this.step.item()) : null;
  }

  #apply(
    states: readonly ParameterState[],
    gradients: readonly Tensor[],
    weightDecay: number,
    learningRate: Tensor,
  ): void {
    const { beta1, beta2 } = this.settings;
    const epsilon = this.#getFixedEpsilon();
    // A captured step is replayed with other step counts, so our kernel computes the epsilon.
    if (epsilon === null) {
      if (!hasFusedAdamW(this.step.device))
        throw new UserError(
          "train.adamEpsilonMode: uncorrected needs the GPU kernels, which cannot be compiled here. `temper doctor` says " +
            "why. Train on a CPU, or with adamEpsilonMode: corrected.",
        );
      const parameters = states.map((state, i) => ({ ...state, gradient: gradients[i] as Tensor, copy: null }));
      const constants = { ...this.settings, weightDecay, learningRate, clipFactor: null, step: this.step };
      fusedAdamW(parameters, constants);
      return;
    }
    fusedAdamWOp(
      states.map((state) => state.parameter),
      // The fused kernel reads memory in order, but a gradient may be transposed.
      gradients.map((gradient) => gradient.contiguous()),
      states.map((state) => state.firstMoment),
      states.map((state) => state.secondMoment),
      [],
      states.map(() => this.step),
      learningRate,
      beta1,
      beta2,
      weightDecay,
      epsilon,
      false,
      false,
    );
  }
}

const fusedAdamOp = operator<FusedAdam<number>>("_fused_adam_");

/** PyTorch's Adam with its default betas, in place, on a GPU in one kernel. Steps count from 1. */
export function createAdam(
  parameter: Tensor,
  {
    learningRate,
    weightDecay,
    maxSteps,
  }: {
    readonly learningRate: number;
    /** Added to the gradient, unlike that of AdamW. */
    readonly weightDecay: number;
    readonly maxSteps: number;
  },
): (gradient: Tensor, step: number) => void {
  const { beta1, beta2, epsilon } = defaultAdamW;
  const [first, second] = noGrad(() => [zerosLike(parameter), zerosLike(parameter)]) as [Tensor, Tensor];
  if (parameter.device !== "cpu") {
    const steps = arange(maxSteps, parameter.device).add(1).to("float32");
    const constants = [learningRate, beta1, beta2, weightDecay, epsilon, false, false] as const;
    return (gradient, step) =>
      fusedAdamOp([parameter], [gradient], [first], [second], [], [steps.select(0, step - 1)], ...constants);
  }
  return (gradient, step) => {
    const decayed = gradient.add(parameter.mul(weightDecay));
    first.mul_(beta1).add_(decayed.mul(1 - beta1));
    second.mul_(beta2).add_(decayed.square().mul(1 - beta2));
    const scale = second
      .sqrt()
      .div(Math.sqrt(1 - beta2 ** step))
      .add(epsilon);
    parameter.sub_(first.div(scale).mul(learningRate / (1 - beta1 ** step)));
  };
}
