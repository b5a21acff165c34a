import { operator, type Tensor } from "../../tensor/index.js";

const diagonal = operator<(self: Tensor, offset: number, first: number, second: number) => Tensor>("diagonal");

/** Vanishes in a sum of exponentials. */
const maskedScore = -30000;

/**
 * L_info (RIFT eq. 10, Lemma 1): how badly each anchor finds its own partner among the candidates of its class, less log N. Anchor i
 * and candidate i belong together; candidates after the anchors' are further negatives. Classes that the batch holds weigh the
 * same, however many examples they have, so that any batch will do.
 *
 * @param scores f_y(anchor, candidate): [anchor, candidate]
 * @param anchorClasses [anchor]
 * @param candidateClasses [candidate]; a class that no anchor has makes a candidate invisible
 */
export function infoNceLoss(scores: Tensor, anchorClasses: Tensor, candidateClasses: Tensor): Tensor {
  const same = anchorClasses.unsqueeze(1).eq(candidateClasses.unsqueeze(0)); // [anchor, candidate]
  const counts = same.to("float32").sum([1]);
  const own = diagonal(scores, 0, 0, 1);
  const losses = scores.maskedFill(same.logicalNot(), maskedScore).logsumexp([1]).sub(own).sub(counts.log());
  // 1 / (examples of the class in the batch): summed over the batch, the number of classes in it.
  const classWeights = anchorClasses.unsqueeze(1).eq(anchorClasses.unsqueeze(0)).to("float32").sum([1]).reciprocal();
  return losses.mul(classWeights).sum().div(classWeights.sum());
}
