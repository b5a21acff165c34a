import { z } from "zod";
import { noGrad, ones, rand, type Tensor } from "../tensor/index.js";
import { averaged, type Layer, type Step } from "../train/index.js";
import { defineMethod } from "./method.js";
import { shifted, wordsOf } from "./word-input.js";

const options = z.strictObject({
  steps: z.number().int().positive().default(2).describe("passes, each over a perturbation one step further uphill"),
  stepSize: z.number().nonnegative().default(0.1).describe("length of an ascent step"),
  initial: z.number().nonnegative().default(1).describe("size of the first, random perturbation"),
  radius: z.number().nonnegative().default(0.6).describe("largest norm of a perturbation; 0: no limit"),
});

type Options = z.output<typeof options>;

const leaf = "freelb.perturbation";

/** The norm of each text's perturbation: [batch, 1, 1]. */
const normOf = (shift: Tensor): Tensor => shift.norm([1, 2], true);

/** Uniform in +-1/sqrt(length * width) times the size, nothing at padding. */
function firstShift(step: Step, size: number): Tensor {
  const { device, model } = step.run;
  const { rows, length, input } = step.batch;
  const width = model.shape.config.hiddenSize;
  const { bias } = input;
  const text = bias ? bias.reshape(rows, length, 1).eq(0).to("float32") : ones([rows, length, 1], { device });
  step.random("freelb");
  const uniform = rand([rows, length, width], { device }).mul(2).sub(1);
  return uniform.mul(text).mul(text.sum([1], true).mul(width).sqrt().reciprocal().mul(size));
}

/** One step along the gradient, of a length that is the same for every text, and back into the ball. */
export function ascend(shift: Tensor, gradient: Tensor, { stepSize, radius }: Pick<Options, "stepSize" | "radius">): Tensor {
  const moved = shift.add(gradient.div(normOf(gradient).clamp(1e-8)).mul(stepSize));
  return radius === 0 ? moved : moved.mul(normOf(moved).clamp(1e-8).reciprocal().mul(radius).clamp(null, 1));
}

/** FreeLB: the gradient averaged over the passes of an ascent on the word embeddings, all under the same dropout. */
function createFreelb(chosen: Options): Layer {
  return {
    name: "freelb",
    owns: { adversary: "searches a perturbation of its own" },
    refuses(beneath) {
      const other = beneath.find((layer) => layer.gradients);
      return other
        ? `${other.name} takes gradients of the clean text, which freelb would perturb: write freelb before ${other.name}`
        : null;
    },
    gradients(step, next) {
      let shift: Tensor | null = null;
      return averaged(new Array<number>(chosen.steps).fill(1 / chosen.steps), (i) => {
        const current = (shift ?? noGrad(() => firstShift(step, chosen.initial))).detach().requireGrad();
        // Every pass has a graph of its own, from the weights up.
        const perturbed = step.derive((derived) => shifted(step, wordsOf(derived, "clean"), current), new Map([[leaf, current]]));
        const gradients = next(perturbed);
        const total = new Map(gradients.total);
        const uphill = total.get(leaf) as Tensor;
        total.delete(leaf);
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
