import { arange, noGrad, operator, type Tensor, zerosLike } from "../tensor/index.js";
import { defaultAdamW } from "./adamw.js";
import type { FusedAdam } from "./fused-adamw.js";

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
    /** The number of steps that will be made at most. */
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
