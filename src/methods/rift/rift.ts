import { z } from "zod";
import { cat, free, keep, type Tensor } from "../../tensor/index.js";
import type { NamedTensors, TrainingMethod } from "../../train/index.js";
import { defineMethod } from "../define-method.js";
import { infoNceLoss } from "./info-nce.js";
import { MemoryQueue } from "./memory-queue.js";
import { initProjections, project } from "./projection-heads.js";
import { computeTeacherFeatures } from "./teacher-features.js";

const size = z.number().int().positive();

/** Robust Informative Fine-Tuning: keep what the pre-trained model knows, given the class. */
export const rift = defineMethod({
  name: "rift",
  summary:
    "keep the information that features share with the pre-trained model's, class by class; over ascc: RIFT, alone: informative fine-tuning",
  paper: "Dong et al., NeurIPS 2021, eq. 10 and 11",
  options: z
    .strictObject({
      alpha: z
        .number()
        .nonnegative()
        .default(0.1)
        .describe("weight of the information term; the paper: 0.1 on IMDB, 0.7 on SNLI"),
      tau: z.number().positive().default(0.2).describe("temperature of the scores"),
      conditional: z
        .boolean()
        .default(true)
        .describe("true: I(S;T|Y), projections a class; false: I(S;T), one pair for all"),
      negatives: z
        .enum(["teachers", "students"])
        .default("teachers")
        .describe(
          "what a score competes with: every teacher for a student (paper), or every student for a teacher (released code)",
        ),
      queueSize: z
        .number()
        .int()
        .nonnegative()
        .default(0)
        .describe("teachers' projections a class kept as further negatives; 0: none"),
      projectionHiddenSize: size.default(512).describe("width of the projections' hidden layer"),
      projectionSize: size.default(256).describe("width of the space that scores are taken in"),
    })
    .refine(({ queueSize: queue, negatives: normalize }) => queue === 0 || normalize === "teachers", {
      path: ["queue"],
      error: "expected 0 with normalize: students, for the queue keeps teachers as negatives (or normalize: teachers)",
    }),
  create: (options) => {
    let parameters: NamedTensors = new Map();
    let queue: MemoryQueue | null = null;
    let teachers: { features: Float32Array; size: number } = { features: new Float32Array(), size: 0 };
    /** Projections that go into the queue when the update is done, by step. */
    const arriving = new Map<number, { projections: Tensor; classes: Tensor }>();

    const layer: TrainingMethod = {
      name: "rift",
      requiresFullBatch: "an example's negatives are the others of its batch",

      checkCompatibility(_beneath, { model }) {
        if (model.architecture.pooling === "pooler" && model.newlyInitialized.some((name) => name.includes(".pooler.")))
          return `feature: pooler: ${model.reference} has no pooler, so its teacher would be random; use feature: token or mean`;
        return null;
      },

      async prepare(run) {
        // A layer above that perturbs in its losses has not done so yet when this one's are taken.
        const above = run.methods
          .slice(run.methods.indexOf(layer) + 1)
          .find(({ exclusiveRoles: owns, losses }) => owns?.adversary && losses);
        if (above)
          run.warn(
            `rift stands beneath ${above.name} and reads the clean text; for RIFT write ${above.name} before rift`,
          );
        const { hiddenSize } = run.model.architecture.config;
        const pairs = options.conditional ? run.model.architecture.numLabels : 1;
        const sizes = { pairs, feature: hiddenSize, hidden: options.projectionHiddenSize, out: options.projectionSize };
        parameters = initProjections("rift.", sizes, run.rng.fork("rift"), run.device);
        if (options.queueSize > 0)
          queue = new MemoryQueue("rift.queue.", pairs, options.queueSize, options.projectionSize, run.device);
        teachers = { features: await computeTeacherFeatures(run), size: hiddenSize };
      },

      state: () => ({ parameters, ...(queue && { buffers: queue.buffers() }) }),

      collate({ indices }) {
        const { features, size } = teachers;
        const values = new Float32Array(indices.length * size);
        for (const [row, index] of indices.entries())
          values.set(features.subarray(index * size, (index + 1) * size), row * size);
        return { "rift.teacher": { values, shape: [indices.length, size] } };
      },

      /** RIFT eq. 11: what is beneath + alpha L_info. The student reads the perturbed text where there is one, the teacher never does. */
      losses(step, next) {
        const losses = new Map(next());
        const { labels } = step.batch;
        const classes = options.conditional ? labels : labels.mul(0);
        const feature = step.pass(step.hasPass("perturbed") ? "perturbed" : "clean").features.to("float32");
        const students = project(parameters, "rift.student", feature, classes);
        const projected = project(parameters, "rift.teacher", step.batch.getExtra("rift.teacher"), classes);
        const loss = computeInformationLoss(students, projected, classes);
        if (queue) enqueueAfterStep(step.batchIndex, projected, classes);
        step.log("information", loss.neg());
        return losses.set("information", loss.mul(options.alpha));
      },

      afterStep(_update, next) {
        next();
        for (const each of arriving.values()) {
          queue?.push(each.projections, each.classes);
          free(each);
        }
        arriving.clear();
      },
    };

    function computeInformationLoss(students: Tensor, projected: Tensor, classes: Tensor): Tensor {
      const scores = (anchors: Tensor, candidates: Tensor): Tensor => anchors.matmul(candidates.t()).div(options.tau);
      if (options.negatives === "students") return infoNceLoss(scores(projected, students), classes, classes);
      if (!queue) return infoNceLoss(scores(students, projected), classes, classes);
      const older = queue.contents();
      return infoNceLoss(
        scores(students, cat([projected, older.entries], 0)),
        classes,
        cat([classes, older.classes.to("int64")], 0),
      );
    }

    /** A step that is run several times counts once. */
    function enqueueAfterStep(step: number, projected: Tensor, classes: Tensor): void {
      free(arriving.get(step));
      arriving.set(step, keep({ projections: projected.detach(), classes: classes.clone() }));
    }

    return layer;
  },
});
