import { z } from "zod";
import { noGrad, ones, rand, type Tensor } from "../tensor/index.js";
import { averageGradients, type BatchContext, type TrainingMethod } from "../train/index.js";
import { defineMethod, nonnegativeSchema } from "./define-method.js";
import { addPerturbation, embedBatchWords } from "./word-embedding-input.js";

const optionsSchema = z.strictObject({
  steps: z.number().int().positive().default(2).describe("ascent steps; each is also a training pass"),
  stepSize: nonnegativeSchema.default(0.1).describe("length of an ascent step"),
  initMagnitude: nonnegativeSchema.default(1).describe("magnitude of the random initial perturbation"),
  maxNorm: nonnegativeSchema.default(0.6).describe("maximum norm of a perturbation; 0: no limit"),
});
const perturbationName = "freelb.perturbation";

/** The norm of each text's perturbation: [batch, 1, 1]. */
const computeNorm = (perturbation: Tensor): Tensor => perturbation.norm([1, 2], true);

/** Uniform in +-magnitude / sqrt(length * hidden size), and 0 at padding. */
function sampleInitialPerturbation(context: BatchContext, magnitude: number): Tensor {
  const { model, deviceConfig } = context.training.job;
  const { device } = deviceConfig;
  const { batchSize, sequenceLength, input } = context.batch;
  const { embeddingSize } = model.architecture.config;
  const mask = input.attentionBias
    ? input.attentionBias.reshape(batchSize, sequenceLength, 1).eq(0).to("float32")
    : ones([batchSize, sequenceLength, 1], { device });
  context.enterRandomStream("freelb");
  const uniform = rand([batchSize, sequenceLength, embeddingSize], { device }).mul(2).sub(1);
  return uniform.mul(mask).mul(mask.sum([1], true).mul(embeddingSize).sqrt().reciprocal().mul(magnitude));
}

/** Moves each perturbation along its normalized gradient and projects it back into the ball. */
function ascend(
  perturbation: Tensor,
  gradient: Tensor,
  { stepSize, maxNorm }: Pick<z.output<typeof optionsSchema>, "stepSize" | "maxNorm">,
): Tensor {
  const moved = perturbation.add(gradient.div(computeNorm(gradient).clamp(1e-8)).mul(stepSize));
  return maxNorm === 0 ? moved : moved.mul(computeNorm(moved).clamp(1e-8).reciprocal().mul(maxNorm).clamp(null, 1));
}

/** Averages the gradients over an ascent on the embeddings. All passes share dropout masks. */
function createFreelb(options: z.output<typeof optionsSchema>): TrainingMethod {
  return {
    name: "freelb",
    traits: { exclusiveRoles: { adversary: "searches its own perturbation" } },
    checkCompatibility(innerMethods) {
      const other = innerMethods.find((method) => method.gradients);
      return other
        ? `${other.name} needs gradients of clean text, but freelb perturbs it. List freelb before ${other.name}.`
        : null;
    },
    gradients(context, next) {
      let perturbation: Tensor | null = null;
      return averageGradients(new Array<number>(options.steps).fill(1 / options.steps), (i) => {
        const current = (perturbation ?? noGrad(() => sampleInitialPerturbation(context, options.initMagnitude)))
          .detach()
          .requiresGrad_();
        // Every pass has its own autograd graph, starting at the weights.
        const perturbed = context.withInput(
          (derived) => addPerturbation(context, embedBatchWords(derived, "clean"), current),
          new Map([[perturbationName, current]]),
        );
        const gradients = next(perturbed);
        const total = new Map(gradients.total);
        const gradient = total.get(perturbationName) as Tensor;
        total.delete(perturbationName);
        if (i + 1 < options.steps) perturbation = noGrad(() => ascend(current, gradient, options));
        return { ...gradients, total };
      });
    },
  };
}

export const freelb = defineMethod({
  name: "freelb",
  summary: "trains on every step of a gradient ascent on the word embeddings",
  paper: "Zhu et al. 2020, FreeLB: Enhanced Adversarial Training for Natural Language Understanding",
  cost: { gpu: "2.2 (two steps)", cpu: "2.1 (two steps)" },
  options: optionsSchema,
  create: createFreelb,
});
