import { copyAll_ } from "../nn/index.js";
import { emptyLike, foreachAdd_, gradOrNull, noGrad, type Tensor, zerosLike } from "../tensor/index.js";
import { getLowPrecisionCopy } from "./mixed-precision.js";
import type { NamedTensors } from "./training-method.js";

/**
 * Gradients of a loss by parameter, in the parameter's own type; zero where a parameter takes no part, so that every update changes
 * the same tensors. A parameter whose copy was read (shadow.ts) gets the copy's gradient.
 */
export function computeGradients(loss: Tensor, parameters: NamedTensors, retainGraph = false): NamedTensors {
  const names = [...parameters.keys()];
  const tensors = [...parameters.values()];
  const copied = tensors.map(getLowPrecisionCopy);
  const leaves = [...new Set(copied.flatMap((copy) => (copy ? [copy.leaf] : [])))];
  const found = gradOrNull(loss, [...tensors, ...leaves], { retainGraph });
  const ofLeaf = new Map(leaves.map((leaf, i) => [leaf, found[tensors.length + i] ?? null]));
  return noGrad(() => {
    const targets: Tensor[] = [];
    const sources: Tensor[] = [];
    const gradients = tensors.map((tensor, i) => {
      const direct = found[i] ?? null;
      const copy = copied[i];
      const whole = copy && ofLeaf.get(copy.leaf);
      if (!copy || !whole) return { direct: direct ?? zerosLike(tensor), target: null };
      const target = emptyLike(tensor);
      targets.push(target);
      sources.push(copy.slice(whole));
      return { direct, target };
    });
    copyAll_(targets, sources);
    const both = gradients.filter(({ direct, target }) => direct && target);
    if (both.length > 0)
      foreachAdd_(
        both.map(({ target }) => target as Tensor),
        both.map(({ direct }) => direct as Tensor),
        1,
      );
    return new Map(
      names.map((name, i) => {
        const { direct, target } = gradients[i] as (typeof gradients)[number];
        return [name, (target ?? direct) as Tensor];
      }),
    );
  });
}
