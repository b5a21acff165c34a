import { isHead } from "../models/index.js";
import { type Change, crossEntropy, type Group } from "../nn/index.js";
import { foreachAdd_, foreachMulScalar_, free, noGrad, type Tensor } from "../tensor/index.js";
import { gradientsOf } from "./gradients.js";
import type { Gradients, Losses, Named, Selected, Step, Update } from "./layer.js";
import type { TrainSettings } from "./settings.js";

/** Standard fine-tuning, the innermost layer: the cross-entropy of the clean pass. */
export function taskLosses(step: Step): Losses {
  return new Map([["task", crossEntropy(step.pass("clean").logits, step.batch.labels)]]);
}

/** The sum of the terms, in their order. */
export function totalOf(losses: Losses): Tensor {
  const [first, ...rest] = losses.values();
  if (!first) throw new Error("a step without a loss");
  return rest.reduce((sum, term) => sum.add(term), first);
}

/** The gradient of the total. */
export function totalGradients(step: Step, losses: Losses): Gradients {
  const wanted = step.leaves.size === 0 ? step.run.parameters : new Map([...step.run.parameters, ...step.leaves]);
  return { losses, total: gradientsOf(totalOf(losses), wanted), others: new Map() };
}

/**
 * The mean of gradients with these shares, losses and all. They are added up as they are made, so that no more than one beside the
 * sum is in memory.
 */
export function averaged(shares: readonly number[], make: (i: number) => Gradients): Gradients {
  const sum = make(0);
  const [first = 1] = shares;
  const tensorsOf = ({ total, others }: Gradients): Tensor[] => [total, ...others.values()].flatMap((named) => [...named.values()]);
  let losses = sum.losses;
  for (let i = 1; i < shares.length; i++) {
    const part = make(i);
    const added = tensorsOf(part);
    // Relative to the first, so that equal shares add up as they are.
    const weight = shares[i]! / first;
    foreachAdd_(tensorsOf(sum), added, weight);
    free(added);
    losses = noGrad(() => new Map([...losses].map(([name, loss]) => [name, loss.add((part.losses.get(name) as Tensor).mul(weight))])));
  }
  if (shares.length === 1) return sum;
  foreachMulScalar_(tensorsOf(sum), first);
  return { ...sum, losses: noGrad(() => new Map([...losses].map(([name, loss]) => [name, loss.mul(first)]))) };
}

/** Every gradient as it is, no gate. */
export function selectAll(update: Update): Selected {
  return new Map([...update.gradients].map(([name, gradient]): [string, Change] => [name, { gradient, gate: null }]));
}

/** AdamW's groups: no decay on biases and normalisations, head and methods with a decay and a rate of their own. */
export function groupsOf(parameters: Named, model: ReadonlySet<string>, settings: TrainSettings): Group[] {
  const groups = new Map<string, { names: string[]; decay: number; rate: number }>();
  for (const name of parameters.keys()) {
    const outside = isHead(name) || !model.has(name);
    const plain = name.endsWith(".bias") || name.includes("LayerNorm");
    const decay = plain ? 0 : outside ? (settings.headWeightDecay ?? settings.weightDecay) : settings.weightDecay;
    const rate = (outside ? settings.headLearningRate : null) ?? settings.learningRate;
    const key = `${decay} ${rate}`;
    const group = groups.get(key) ?? { names: [], decay, rate };
    group.names.push(name);
    groups.set(key, group);
  }
  return [...groups.values()];
}
