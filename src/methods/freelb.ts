import { z } from "zod";
import { noGrad, ones, rand, type Tensor } from "../tensor/index.js";
import { averaged, type BatchContext, type TrainingMethod } from "../train/index.js";
import { defineMethod } from "./define-method.js";
import { addPerturbation, embedBatchWords } from "./word-embedding-input.js";

const options = z.strictObject({
  steps: z.number().int().positive().default(2).describe("passes, each over a perturbation one step further uphill"),
  stepSize: z.number().nonnegative().default(0.1).describe("length of an ascent step"),
  initMagnitude: z.number().nonnegative().default(1).describe("size of the first, random perturbation"),
  maxNorm: z.number().nonnegative().default(0.6).describe("largest norm of a perturbation; 0: no limit"),
});

type Options = z.output<typeof options>;

const perturbationName = "freelb.perturbation";

/** The norm of each text's perturbation: [batch, 1, 1]. */
const computeNorm = (shift: Tensor): Tensor => shift.norm([1, 2], true);

/** Uniform in +-1/sqrt(length * width) times the size, nothing at padding. */
function sampleInitialPerturbation(step: BatchContext, size: number): Tensor {
  const { device, model } = step.run;
  const { batchSize: rows, sequenceLength: length, input } = step.batch;
  const width = model.architecture.config.hiddenSize;
  const { attentionBias: bias } = input;
  const text = bias ? bias.reshape(rows, length, 1).eq(0).to("float32") : ones([rows, length, 1], { device });
  step.enterRandomStream("freelb");
  const uniform = rand([rows, length, width], { device }).mul(2).sub(1);
  return uniform.mul(text).mul(text.sum([1], true).mul(width).sqrt().reciprocal().mul(size));
}

/** One step along the gradient, of a length that is the same for every text, and back into the ball. */
export function ascend(
  shift: Tensor,
  gradient: Tensor,
  { stepSize, maxNorm: radius }: Pick<Options, "stepSize" | "maxNorm">,
): Tensor {
  const moved = shift.add(gradient.div(computeNorm(gradient).clamp(1e-8)).mul(stepSize));
  return radius === 0 ? moved : moved.mul(computeNorm(moved).clamp(1e-8).reciprocal().mul(radius).clamp(null, 1));
}

/** FreeLB: the gradient averaged over the passes of an ascent on the word embeddings, all under the same dropout. */
function createFreelb(chosen: Options): TrainingMethod {
  return {
    name: "freelb",
    exclusiveRoles: { adversary: "searches a perturbation of its own" },
    checkCompatibility(beneath) {
      const other = beneath.find((layer) => layer.gradients);
      return other
        ? `${other.name} takes gradients of the clean text, which freelb would perturb: write freelb before ${other.name}`
        : null;
    },
    gradients(step, next) {
      let shift: Tensor | null = null;
      return averaged(new Array<number>(chosen.steps).fill(1 / chosen.steps), (i) => {
        const current = (shift ?? noGrad(() => sampleInitialPerturbation(step, chosen.initMagnitude)))
          .detach()
          .requiresGrad_();
        // Every pass has a graph of its own, from the weights up.
        const perturbed = step.withInput(
          (derived) => addPerturbation(step, embedBatchWords(derived, "clean"), current),
          new Map([[perturbationName, current]]),
        );
        const gradients = next(perturbed);
        const total = new Map(gradients.total);
        const uphill = total.get(perturbationName) as Tensor;
        total.delete(perturbationName);
        if (i + 1 < chosen.steps) shift = noGrad(() => ascend(current, uphill, chosen));
        return { ...gradients, total };
      });
    },
  };
}

export const freelb = defineMethod({
  name: "freelb",
  summary: "trains on every pass of an ascent on the word embeddings",
  paper: "Zhu et al. 2020, FreeLB: Enhanced Adversarial Training for Natural Language Understanding",
  options,
  create: createFreelb,
});
