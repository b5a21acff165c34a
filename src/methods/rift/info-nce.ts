import { operator, type Tensor } from "../../tensor/index.js";

const diagonal = operator<(self: Tensor, offset: number, first: number, second: number) => Tensor>("diagonal");

/** Vanishes in a sum of exponentials. */
const maskedScore = -30000;

/**
 * L_info (RIFT eq. 10, Lemma 1): the InfoNCE loss of each anchor among the candidates of its class,
 * minus log N. Anchor i and candidate i are a positive pair; further candidates are negatives.
 * All classes in the batch have the same weight, regardless of their number of examples.
 *
 * @param scores f_y(anchor, candidate): [anchor, candidate]
 * @param anchorClasses [anchor]
 * @param candidateClasses [candidate]; a candidate whose class no anchor has is ignored
 */
export function infoNceLoss(scores: Tensor, anchorClasses: Tensor, candidateClasses: Tensor): Tensor {
  const isSameClass = anchorClasses.unsqueeze(1).eq(candidateClasses.unsqueeze(0)); // [anchor, candidate]
  const counts = isSameClass.to("float32").sum([1]);
  const positives = diagonal(scores, 0, 0, 1);
  const losses = scores
    .maskedFill(isSameClass.logicalNot(), maskedScore)
    .logsumexp([1])
    .sub(positives)
    .sub(counts.log());
  // 1 / (examples of the class in the batch). The sum over the batch is the number of its classes.
  const classWeights = anchorClasses.unsqueeze(1).eq(anchorClasses.unsqueeze(0)).to("float32").sum([1]).reciprocal();
  return losses.mul(classWeights).sum().div(classWeights.sum());
}
