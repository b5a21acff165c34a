import { isHeadParameter, isNormParameter } from "../models/index.js";
import type { ParameterGroup, ParameterUpdate } from "../nn/index.js";
import { foreachAdd_, foreachMulScalar_, free, noGrad, type Tensor } from "../tensor/index.js";
import type { TrainSettings } from "./settings.js";
import type {
  BatchContext,
  Gradients,
  Losses,
  NamedTensors,
  OptimizerStep,
  ParameterUpdates,
  TrainingMethod,
} from "./training-method.js";

/** Standard fine-tuning, the base of every stack: the task loss of the clean pass. */
export function computeTaskLosses(context: BatchContext): Losses {
  return new Map([["task", context.training.taskLoss(context.pass("clean").logits, context.batch.labels)]]);
}

export function sumLosses(losses: Losses): Tensor {
  const [first, ...rest] = losses.values();
  if (!first) throw new Error("A batch needs at least one loss term.");
  return rest.reduce((sum, term) => sum.add(term), first);
}

export function computeTotalGradients(context: BatchContext, losses: Losses): Gradients {
  const { extraLeaves } = context;
  const { parameters } = context.training;
  const leaves = extraLeaves.size === 0 ? parameters : new Map([...parameters, ...extraLeaves]);
  const total = context.computeGradients(sumLosses(losses), leaves, false, context.keepsGradientDtype);
  return { losses, total, auxiliary: new Map() };
}

/** The key of the task loss's own gradients among the auxiliary gradients. */
export const taskGradientsKey = "task";

/** Computes the gradients of the task loss alone if a method needs them, and keeps the graph. */
export function computeTaskGradients(
  context: BatchContext,
  losses: Losses,
  methods: readonly TrainingMethod[],
): Gradients["auxiliary"] {
  const task = losses.size > 1 ? losses.get("task") : undefined;
  const parameters = task && methods.map((method) => method.traits?.needsTaskGradients?.(context)).find(Boolean);
  if (!task || !parameters) return new Map();
  return new Map([[taskGradientsKey, context.computeGradients(task, parameters, true)]]);
}

/** Averages gradients and losses as they are computed, so that few are in memory. */
export function averageGradients(weights: readonly number[], compute: (i: number) => Gradients): Gradients {
  const sum = compute(0);
  const [firstWeight = 1] = weights;
  const listTensors = ({ total, auxiliary }: Gradients): Tensor[] =>
    [total, ...auxiliary.values()].flatMap((named) => [...named.values()]);
  let losses = sum.losses;
  for (let i = 1; i < weights.length; i++) {
    const next = compute(i);
    const addends = listTensors(next);
    // Weights are relative to the first one, so equal weights add the gradients unscaled.
    const weight = weights[i]! / firstWeight;
    foreachAdd_(listTensors(sum), addends, weight);
    free(addends);
    losses = noGrad(
      () => new Map([...losses].map(([name, loss]) => [name, loss.add((next.losses.get(name) as Tensor).mul(weight))])),
    );
  }
  if (weights.length === 1) return sum;
  foreachMulScalar_(listTensors(sum), firstWeight);
  return { ...sum, losses: noGrad(() => new Map([...losses].map(([name, loss]) => [name, loss.mul(firstWeight)]))) };
}

export function createUnmaskedUpdates({ gradients }: OptimizerStep): ParameterUpdates {
  return new Map([...gradients].map(([name, gradient]): [string, ParameterUpdate] => [name, { gradient, mask: null }]));
}

/**
 * AdamW's parameter groups. Biases and LayerNorm weights have no weight decay. The head and the
 * methods' own parameters can have a separate weight decay and learning rate.
 */
export function createParameterGroups(
  parameters: NamedTensors,
  modelParameters: ReadonlySet<string>,
  settings: TrainSettings,
): ParameterGroup[] {
  const groups = new Map<string, { names: string[]; weightDecay: number; learningRate: number }>();
  for (const name of parameters.keys()) {
    const isOutsideEncoder = isHeadParameter(name) || !modelParameters.has(name);
    const weightDecay =
      name.endsWith(".bias") || isNormParameter(name)
        ? 0
        : ((isOutsideEncoder ? settings.headWeightDecay : null) ?? settings.weightDecay);
    const learningRate = (isOutsideEncoder ? settings.headLearningRate : null) ?? settings.learningRate;
    const key = `${weightDecay} ${learningRate}`;
    const group = groups.get(key) ?? { names: [], weightDecay, learningRate };
    group.names.push(name);
    groups.set(key, group);
  }
  return [...groups.values()];
}
