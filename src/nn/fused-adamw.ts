import { type Device, loadKernels, operator, type Tensor } from "../tensor/index.js";

export type FusedAdam<LearningRate extends number | Tensor> = (
  parameters: readonly Tensor[],
  gradients: readonly Tensor[],
  first: readonly Tensor[],
  second: readonly Tensor[],
  maximum: readonly Tensor[],
  steps: readonly Tensor[],
  learningRate: LearningRate,
  beta1: number,
  beta2: number,
  weightDecay: number,
  epsilon: number,
  amsgrad: boolean,
  maximize: boolean,
) => void;

const adamwOp =
  operator<
    (
      weights: readonly Tensor[],
      gradients: readonly Tensor[],
      first: readonly Tensor[],
      second: readonly Tensor[],
      copies: readonly Tensor[],
      step: Tensor,
      learningRate: Tensor,
      clipFactor: Tensor | null,
      beta1: number,
      beta2: number,
      weightDecay: number,
      epsilon: number,
      hasUncorrectedEpsilon: boolean,
    ) => void
  >("temper::adamw_");

export function hasFusedAdamW(device: Device): boolean {
  return loadKernels("adamw", 0, "float32", device);
}

/** Does one step of AdamW in float32 with our kernel. All parameters or none have a copy. */
export function fusedAdamW(
  parameters: readonly {
    readonly parameter: Tensor;
    readonly gradient: Tensor;
    readonly firstMoment: Tensor;
    readonly secondMoment: Tensor;
    readonly copy: Tensor | null;
  }[],
  constants: {
    readonly step: Tensor;
    readonly learningRate: Tensor;
    readonly clipFactor: Tensor | null;
    readonly beta1: number;
    readonly beta2: number;
    readonly weightDecay: number;
    readonly epsilon: number;
    readonly epsilonMode: "corrected" | "uncorrected";
  },
): void {
  const { step, learningRate, clipFactor, beta1, beta2, weightDecay, epsilon, epsilonMode } = constants;
  adamwOp(
    parameters.map(({ parameter }) => parameter),
    parameters.map(({ gradient }) => gradient),
    parameters.map(({ firstMoment }) => firstMoment),
    parameters.map(({ secondMoment }) => secondMoment),
    parameters.flatMap(({ copy }) => copy ?? []),
    ...([step, learningRate, clipFactor, beta1, beta2, weightDecay, epsilon] as const),
    epsilonMode === "uncorrected",
  );
}
