import { isHeadParameter } from "../models/index.js";
import { crossEntropy, type ParameterGroup, type ParameterUpdate } from "../nn/index.js";
import { foreachAdd_, foreachMulScalar_, free, noGrad, type Tensor } from "../tensor/index.js";
import { computeGradients } from "./gradients.js";
import type { TrainSettings } from "./settings.js";
import type {
  BatchContext,
  Gradients,
  Losses,
  NamedTensors,
  OptimizerStep,
  ParameterUpdates,
} from "./training-method.js";

/** Standard fine-tuning, the innermost layer: the cross-entropy of the clean pass. */
export function computeTaskLosses(step: BatchContext): Losses {
  return new Map([["task", crossEntropy(step.pass("clean").logits, step.batch.labels)]]);
}

/** The sum of the terms, in their order. */
export function sumLosses(losses: Losses): Tensor {
  const [first, ...rest] = losses.values();
  if (!first) throw new Error("a step without a loss");
  return rest.reduce((sum, term) => sum.add(term), first);
}

/** The gradient of the total. */
export function computeTotalGradients(step: BatchContext, losses: Losses): Gradients {
  const wanted =
    step.extraLeaves.size === 0 ? step.run.parameters : new Map([...step.run.parameters, ...step.extraLeaves]);
  return { losses, total: computeGradients(sumLosses(losses), wanted), auxiliary: new Map() };
}

/**
 * The mean of gradients with these shares, losses and all. They are added up as they are made, so that no more than one beside the
 * sum is in memory.
 */
export function averageGradients(weights: readonly number[], make: (i: number) => Gradients): Gradients {
  const sum = make(0);
  const [first = 1] = weights;
  const listTensors = ({ total, auxiliary: others }: Gradients): Tensor[] =>
    [total, ...others.values()].flatMap((named) => [...named.values()]);
  let losses = sum.losses;
  for (let i = 1; i < weights.length; i++) {
    const part = make(i);
    const added = listTensors(part);
    // Relative to the first, so that equal shares add up as they are.
    const weight = weights[i]! / first;
    foreachAdd_(listTensors(sum), added, weight);
    free(added);
    losses = noGrad(
      () => new Map([...losses].map(([name, loss]) => [name, loss.add((part.losses.get(name) as Tensor).mul(weight))])),
    );
  }
  if (weights.length === 1) return sum;
  foreachMulScalar_(listTensors(sum), first);
  return { ...sum, losses: noGrad(() => new Map([...losses].map(([name, loss]) => [name, loss.mul(first)]))) };
}

/** Every gradient as it is, no gate. */
export function createUnmaskedUpdates(update: OptimizerStep): ParameterUpdates {
  return new Map(
    [...update.gradients].map(([name, gradient]): [string, ParameterUpdate] => [name, { gradient, mask: null }]),
  );
}

/** AdamW's groups: no decay on biases and normalisations, head and methods with a decay and a rate of their own. */
export function createParameterGroups(
  parameters: NamedTensors,
  model: ReadonlySet<string>,
  settings: TrainSettings,
): ParameterGroup[] {
  const groups = new Map<string, { names: string[]; weightDecay: number; learningRate: number }>();
  for (const name of parameters.keys()) {
    const outside = isHeadParameter(name) || !model.has(name);
    const plain = name.endsWith(".bias") || name.includes("LayerNorm");
    const decay = plain ? 0 : outside ? (settings.headWeightDecay ?? settings.weightDecay) : settings.weightDecay;
    const rate = (outside ? settings.headLearningRate : null) ?? settings.learningRate;
    const key = `${decay} ${rate}`;
    const group = groups.get(key) ?? { names: [], weightDecay: decay, learningRate: rate };
    group.names.push(name);
    groups.set(key, group);
  }
  return [...groups.values()];
}
