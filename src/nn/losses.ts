import { crossEntropyLoss, type Tensor } from "../tensor/index.js";

const noReduction = 0;
const meanReduction = 1;
const ignoreIndex = -100;

/** The mean over the batch of -log p(label), from logits [batch, class]. */
export function crossEntropy(logits: Tensor, labels: Tensor): Tensor {
  return crossEntropyLoss(logits, labels, null, meanReduction, ignoreIndex, 0);
}

/** -log p(label) per example, from logits [batch, class]: [batch]. */
export function crossEntropyPerExample(logits: Tensor, labels: Tensor): Tensor {
  return crossEntropyLoss(logits, labels, null, noReduction, ignoreIndex, 0);
}

/** KL(p || q) per example, from logits: [batch]. Gradients flow to both arguments. */
export function klDivergencePerExample(p: Tensor, q: Tensor): Tensor {
  const logP = p.logSoftmax(-1);
  return logP
    .exp()
    .mul(logP.sub(q.logSoftmax(-1)))
    .sum([-1]);
}

/** The mean over the batch of KL(p || q), from logits. */
export function klDivergence(p: Tensor, q: Tensor): Tensor {
  return klDivergencePerExample(p, q).mean();
}

/** The mean over the batch of KL(p || q) + KL(q || p), from logits. */
export function symmetricKl(p: Tensor, q: Tensor): Tensor {
  const logP = p.logSoftmax(-1);
  const logQ = q.logSoftmax(-1);
  return logP.exp().sub(logQ.exp()).mul(logP.sub(logQ)).sum([-1]).mean();
}
