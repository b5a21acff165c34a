import {
  free,
  hasOperator,
  keep,
  lerp,
  noGrad,
  operator,
  scope,
  sideBySide,
  stack,
  type Tensor,
  zeros,
  zerosLike,
} from "../tensor/index.js";

type TensorList = readonly Tensor[];
const fusedAdamWOp = operator<
  (
    parameters: TensorList,
    gradients: TensorList,
    first: TensorList,
    second: TensorList,
    maximum: TensorList,
    steps: TensorList,
    rate: Tensor,
    beta1: number,
    beta2: number,
    decay: number,
    epsilon: number,
    amsgrad: boolean,
    maximize: boolean,
  ) => void
>("_fused_adamw_", "tensor_lr");

export interface AdamWSettings {
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
}

export const defaultAdamW: AdamWSettings = { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };

/** Parameters that share a weight decay and a learning rate. */
export interface ParameterGroup {
  readonly names: readonly string[];
  readonly weightDecay: number;
  /** The highest rate, of which a schedule takes a part. */
  readonly learningRate: number;
}

/**
 * What an update does to one parameter: its gradient, and a gate on its final change (ROSE, Algorithm 1, line 13): one number, or
 * one for each element; null: all of it.
 */
export interface ParameterUpdate {
  readonly gradient: Tensor;
  readonly mask: Tensor | null;
}

interface MaskedUpdate {
  readonly state: ParameterState;
  readonly gradient: Tensor;
  readonly mask: Tensor;
}

interface ParameterState {
  readonly parameter: Tensor;
  readonly firstMoment: Tensor;
  readonly secondMoment: Tensor;
}

/**
 * AdamW with decoupled decay. The learning rate and the step count are tensors, so that a captured step can be replayed with
 * other values. Its moments are named after the parameters, for checkpoints.
 */
export class AdamW {
  readonly settings: AdamWSettings;
  readonly #groups: { group: ParameterGroup; rate: Tensor }[];
  readonly #slots: ReadonlyMap<string, ParameterState>;
  /** Updates done, shared by all parameters. */
  readonly step: Tensor;

  constructor(
    parameters: ReadonlyMap<string, Tensor>,
    groups: readonly ParameterGroup[],
    settings: AdamWSettings = defaultAdamW,
  ) {
    this.settings = settings;
    const device = [...parameters.values()][0]?.device ?? "cpu";
    // Kept when all of it is made: memory may end in between.
    const { step, rates, moments } = noGrad(() =>
      scope(() => {
        const names = groups.flatMap((group) => group.names);
        const made = names.map((name): [string, ParameterState] => {
          const parameter = parameters.get(name);
          if (!parameter) throw new Error(`the optimiser was given no parameter ${name}`);
          return [name, { parameter, firstMoment: zerosLike(parameter), secondMoment: zerosLike(parameter) }];
        });
        const rest = { step: zeros([], { device }), rates: groups.map(() => zeros([], { device })) };
        keep([rest, made.map(([, { firstMoment: first, secondMoment: second }]) => [first, second])]);
        return { ...rest, moments: made };
      }),
    );
    this.step = step;
    this.#groups = groups.map((group, i) => ({ group, rate: rates[i]! }));
    this.#slots = new Map(moments);
  }

  /** The first moment m of a parameter, without bias correction: what ROSE's second-order risk compares the gradient with. */
  firstMoment(name: string): Tensor {
    return this.#slot(name).firstMoment;
  }

  #slot(name: string): ParameterState {
    const slot = this.#slots.get(name);
    if (!slot) throw new Error(`the optimiser knows no parameter ${name}`);
    return slot;
  }

  /** Both moments by parameter, for checkpoints. */
  moments(): Map<string, Tensor> {
    return new Map(
      [...this.#slots].flatMap(([name, slot]): [string, Tensor][] => [
        [`first.${name}`, slot.firstMoment],
        [`second.${name}`, slot.secondMoment],
      ]),
    );
  }

  /** Frees what the optimiser made; the parameters are their owner's. */
  dispose(): void {
    free([this.step, ...this.#groups.map((entry) => entry.rate), ...this.moments().values()]);
  }

  /** Sets which part of each group's rate the updates to come have. */
  setLearningRateFactor(factor: number): void {
    for (const { group, rate } of this.#groups) rate.fill_(factor * group.learningRate);
  }

  /** One update. Parameters without a change are left alone, moments and all. */
  update(changes: ReadonlyMap<string, ParameterUpdate>): void {
    noGrad(() =>
      scope(() => {
        this.step.add_(1);
        for (const { group, rate } of this.#groups) {
          const names = group.names.filter((name) => changes.has(name));
          if (names.length > 0) this.#updateGroup(names, changes, group.weightDecay, rate);
        }
      }),
    );
  }

  #updateGroup(
    names: readonly string[],
    changes: ReadonlyMap<string, ParameterUpdate>,
    decay: number,
    rate: Tensor,
  ): void {
    const getMask = (name: string): Tensor | null => changes.get(name)?.mask ?? null;
    const plain = names.filter((name) => !getMask(name));
    const gradient = (name: string): Tensor => (changes.get(name) as ParameterUpdate).gradient;
    if (plain.length > 0)
      this.#apply(
        plain.map((name) => this.#slot(name)),
        plain.map(gradient),
        decay,
        rate,
      );
    const gated = names.flatMap((name) => {
      const gate = getMask(name);
      return gate ? [{ state: this.#slot(name), gradient: gradient(name), mask: gate }] : [];
    });
    const isSingle = ({ mask: gate }: MaskedUpdate): boolean => gate.numel === 1;
    this.#applyRates(gated.filter(isSingle), decay, rate);
    for (const each of gated) if (!isSingle(each)) this.#applyElements(each, decay, rate);
  }

  /**
   * One gate for all elements of a parameter: the whole change, decay included, is in proportion to the rate, so the gate is a rate of
   * the parameter's own. A gate of 1 is the plain update to the bit, a gate of 0 leaves the parameter as it was.
   */
  #applyRates(gated: readonly MaskedUpdate[], decay: number, rate: Tensor): void {
    if (gated.length === 0) return;
    const gates = gated.map(({ mask: gate }) => gate.reshape());
    const rates = stack(gates, 0).mul(rate);
    sideBySide(
      rates.device,
      gated.map(({ state: slot, gradient }, i) => {
        const own = rates.select(0, i);
        // Here, since what runs side by side must not take memory.
        const whole = gradient.contiguous();
        return () => this.#apply([slot], [whole], decay, own);
      }),
    );
  }

  /** A gate for each element. */
  #applyElements({ state: slot, gradient, mask: gate }: MaskedUpdate, decay: number, rate: Tensor): void {
    scope(() => {
      const before = slot.parameter.clone();
      this.#apply([slot], [gradient], decay, rate);
      // lerp is exact at both ends.
      slot.parameter.copy_(lerp(before, slot.parameter, gate));
    });
  }

  #apply(slots: readonly ParameterState[], gradients: TensorList, decay: number, rate: Tensor): void {
    const { beta1, beta2, epsilon } = this.settings;
    const pickAll = (pick: (slot: ParameterState) => Tensor): Tensor[] => slots.map(pick);
    if (hasOperator("_fused_adamw_", "tensor_lr")) {
      const steps = slots.map(() => this.step);
      fusedAdamWOp(
        pickAll((s) => s.parameter),
        // The fused kernel walks memory in order; a gradient may come transposed.
        gradients.map((gradient) => gradient.contiguous()),
        pickAll((s) => s.firstMoment),
        pickAll((s) => s.secondMoment),
        [],
        steps,
        rate,
        beta1,
        beta2,
        decay,
        epsilon,
        false,
        false,
      );
    } else {
      for (const [i, slot] of slots.entries())
        unfusedUpdate(slot, gradients[i] as Tensor, this.step, rate, decay, this.settings);
    }
  }
}

/** The same arithmetic in plain operators, for a libtorch without the fused one. */
function unfusedUpdate(
  slot: ParameterState,
  gradient: Tensor,
  step: Tensor,
  rate: Tensor,
  decay: number,
  settings: AdamWSettings,
): void {
  const { beta1, beta2, epsilon } = settings;
  const correction = (beta: number): Tensor => step.to("float64").mul(Math.log(beta)).exp().neg().add(1).to("float32");
  slot.parameter.mul_(rate.mul(-decay).add(1));
  slot.firstMoment.mul_(beta1).add_(gradient.mul(1 - beta1));
  slot.secondMoment.mul_(beta2).add_(gradient.square().mul(1 - beta2));
  const scale = slot.secondMoment.div(correction(beta2)).sqrt().add(epsilon);
  slot.parameter.sub_(slot.firstMoment.div(scale).mul(rate.div(correction(beta1))));
}
