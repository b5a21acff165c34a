import { z } from "zod";
import { cat, free, keep, type Tensor } from "../tensor/index.js";
import type { Layer, Named } from "../train/index.js";
import { informationLoss } from "./information.js";
import { MemoryQueue } from "./memory-queue.js";
import { defineMethod } from "./method.js";
import { drawProjections, project } from "./projections.js";
import { teacherFeatures } from "./teacher.js";

const size = z.number().int().positive();

/** Robust Informative Fine-Tuning: keep what the pre-trained model knows, given the class. */
export const rift = defineMethod({
  name: "rift",
  summary:
    "keep the information that features share with the pre-trained model's, class by class; over ascc: RIFT, alone: informative fine-tuning",
  paper: "Dong et al., NeurIPS 2021, eq. 10 and 11",
  options: z
    .strictObject({
      alpha: z.number().nonnegative().default(0.1).describe("weight of the information term; the paper: 0.1 on IMDB, 0.7 on SNLI"),
      tau: z.number().positive().default(0.2).describe("temperature of the scores"),
      conditional: z.boolean().default(true).describe("true: I(S;T|Y), projections a class; false: I(S;T), one pair for all"),
      normalize: z
        .enum(["teachers", "students"])
        .default("teachers")
        .describe("what a score competes with: every teacher for a student (paper), or every student for a teacher (released code)"),
      queue: z.number().int().nonnegative().default(0).describe("teachers' projections a class kept as further negatives; 0: none"),
      hidden: size.default(512).describe("width of the projections' hidden layer"),
      out: size.default(256).describe("width of the space that scores are taken in"),
    })
    .refine(({ queue, normalize }) => queue === 0 || normalize === "teachers", {
      path: ["queue"],
      error: "expected 0 with normalize: students, for the queue keeps teachers as negatives (or normalize: teachers)",
    }),
  create: (options) => {
    let parameters: Named = new Map();
    let queue: MemoryQueue | null = null;
    let teachers: { features: Float32Array; size: number } = { features: new Float32Array(), size: 0 };
    /** Projections that go into the queue when the update is done, by step. */
    const arriving = new Map<number, { projections: Tensor; classes: Tensor }>();

    const layer: Layer = {
      name: "rift",
      wholeBatch: "an example's negatives are the others of its batch",

      refuses(_beneath, { model }) {
        if (model.shape.feature === "pooler" && model.fresh.some((name) => name.includes(".pooler.")))
          return `feature: pooler: ${model.reference} has no pooler, so its teacher would be random; use feature: token or mean`;
        return null;
      },

      async prepare(run) {
        // A layer above that perturbs in its losses has not done so yet when this one's are taken.
        const above = run.layers.slice(run.layers.indexOf(layer) + 1).find(({ owns, losses }) => owns?.adversary && losses);
        if (above) run.notice(`rift stands beneath ${above.name} and reads the clean text; for RIFT write ${above.name} before rift`);
        const { hiddenSize } = run.model.shape.config;
        const pairs = options.conditional ? run.model.shape.classes : 1;
        const sizes = { pairs, feature: hiddenSize, hidden: options.hidden, out: options.out };
        parameters = drawProjections("rift.", sizes, run.rng.fork("rift"), run.device);
        if (options.queue > 0) queue = new MemoryQueue("rift.queue.", pairs, options.queue, options.out, run.device);
        teachers = { features: await teacherFeatures(run), size: hiddenSize };
      },

      state: () => ({ parameters, ...(queue && { buffers: queue.buffers() }) }),

      collate({ indices }) {
        const { features, size } = teachers;
        const values = new Float32Array(indices.length * size);
        for (const [row, index] of indices.entries()) values.set(features.subarray(index * size, (index + 1) * size), row * size);
        return { "rift.teacher": { values, shape: [indices.length, size] } };
      },

      /** RIFT eq. 11: what is beneath + alpha L_info. The student reads the perturbed text where there is one, the teacher never does. */
      losses(step, next) {
        const losses = new Map(next());
        const { labels } = step.batch;
        const classes = options.conditional ? labels : labels.mul(0);
        const feature = step.pass(step.has("perturbed") ? "perturbed" : "clean").feature.to("float32");
        const students = project(parameters, "rift.student", feature, classes);
        const projected = project(parameters, "rift.teacher", step.batch.extra("rift.teacher"), classes);
        const loss = information(students, projected, classes);
        if (queue) remember(step.number, projected, classes);
        step.log("information", loss.neg());
        return losses.set("information", loss.mul(options.alpha));
      },

      after(_update, next) {
        next();
        for (const each of arriving.values()) {
          queue?.push(each.projections, each.classes);
          free(each);
        }
        arriving.clear();
      },
    };

    function information(students: Tensor, projected: Tensor, classes: Tensor): Tensor {
      const scores = (anchors: Tensor, candidates: Tensor): Tensor => anchors.matmul(candidates.t()).div(options.tau);
      if (options.normalize === "students") return informationLoss(scores(projected, students), classes, classes);
      if (!queue) return informationLoss(scores(students, projected), classes, classes);
      const older = queue.contents();
      return informationLoss(scores(students, cat([projected, older.entries], 0)), classes, cat([classes, older.classes.to("int64")], 0));
    }

    /** A step that is run several times counts once. */
    function remember(step: number, projected: Tensor, classes: Tensor): void {
      free(arriving.get(step));
      arriving.set(step, keep({ projections: projected.detach(), classes: classes.clone() }));
    }

    return layer;
  },
});
