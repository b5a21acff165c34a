import { z } from "zod";
import { doesHeadReadFeatures, isPoolerParameter } from "../../models/index.js";
import { cat, free, type HostTensor, keep, type Tensor } from "../../tensor/index.js";
import type { NamedTensors, TrainingContext, TrainingMethod } from "../../train/index.js";
import { defineMethod, nonnegativeSchema } from "../define-method.js";
import { infoNceLoss } from "./info-nce.js";
import { MemoryQueue } from "./memory-queue.js";
import { initProjections, project } from "./projection-heads.js";
import { computeTeacherFeatures } from "./teacher-features.js";

const sizeSchema = z.number().int().positive();

const optionsSchema = z
  .strictObject({
    alpha: nonnegativeSchema
      .default(0.1)
      .describe("weight of the information term; the paper uses 0.1 on IMDB and 0.7 on SNLI"),
    tau: z.number().positive().default(0.2).describe("temperature of the scores"),
    conditional: z
      .boolean()
      .default(true)
      .describe("true: I(S;T|Y), projections per class; false: I(S;T), one pair of projections"),
    negatives: z
      .enum(["teachers", "students"])
      .default("teachers")
      .describe("negatives of a score: other teachers (paper) or other students (released code)"),
    separatePass: z
      .boolean()
      .default(false)
      .describe("run the student once more for the information term, with dropout of its own (released code)"),
    queueSize: z
      .int()
      .nonnegative()
      .default(0)
      .describe("teacher projections per class that are kept as additional negatives; 0: none"),
    projectionHiddenSize: sizeSchema.default(512).describe("hidden size of the projections"),
    projectionSize: sizeSchema.default(256).describe("output size of the projections"),
  })
  .refine(({ queueSize, negatives }) => queueSize === 0 || negatives === "teachers", {
    path: ["queueSize"],
    error: "expected 0 with negatives: students, because the queue stores teachers",
  });
export const rift = defineMethod({
  name: "rift",
  summary: "retains the information that features share with the pre-trained model, per class; RIFT on top of ascc",
  paper: "Dong et al., NeurIPS 2021, eq. 10 and 11",
  cost: { gpu: "1.1 (8.1 with ascc)", cpu: "1.1 (3.0 with ascc, one inner step)" },
  options: optionsSchema,
  create: (options) => {
    let parameters: NamedTensors = new Map();
    let queue: MemoryQueue | null = null;
    let getTeacherFeatures: ((index: number) => Float32Array) | null = null;
    /** Projections that enter the queue after the optimizer step, by batch index. */
    const pending = new Map<number, { projections: Tensor; classes: Tensor }>();

    const method: TrainingMethod = {
      name: "rift",
      // Eq. 9 and 10 share one feature: what RIFT retains must be what the classifier reads.
      checkCompatibility(_innerMethods, { model: { architecture } }) {
        if (doesHeadReadFeatures(architecture)) return null;
        const { head, pooling } = architecture;
        return (
          `it retains the features of pooling: ${pooling}, but head: ${head} classifies without them. ` +
          `Set head: mlp (--head mlp), or pooling: cls.`
        );
      },

      async prepare(training) {
        const { model, deviceConfig } = training.job;
        const { device } = deviceConfig;
        warnOfWeakSettings(training, method);
        const { hiddenSize } = model.architecture.config;
        const { queueSize, projectionHiddenSize, projectionSize } = options;
        const pairs = options.conditional ? model.architecture.numLabels : 1;
        const sizes = { pairs, feature: hiddenSize, hidden: projectionHiddenSize, out: projectionSize };
        parameters = initProjections("rift.", sizes, training.rng.fork("rift"), device);
        if (queueSize > 0) queue = new MemoryQueue("rift.queue.", pairs, queueSize, projectionSize, device);
        getTeacherFeatures = await computeTeacherFeatures(training);
      },

      state: () => ({ parameters, ...(queue && { buffers: queue.buffers() }) }),

      collate: ({ indices }) => ({
        "rift.teacher": stackRows(Array.from(indices, (index) => getTeacherFeatures!(index))),
      }),

      /** Eq. 11: inner losses + alpha L_info. Only the student sees the perturbed text. */
      losses(context, next) {
        const losses = new Map(next());
        const { labels } = context.batch;
        const classes = options.conditional ? labels : labels.mul(0);
        const seen = context.hasPass("perturbed") ? "perturbed" : "clean";
        const pass = options.separatePass ? context.repeatPass(seen, "rift.information") : context.pass(seen);
        const studentProjections = project(parameters, "rift.student", pass.features.to("float32"), classes);
        const teacherFeatures = context.batch.getExtra("rift.teacher");
        const teacherProjections = project(parameters, "rift.teacher", teacherFeatures, classes);
        const loss = computeInformationLoss(studentProjections, teacherProjections, classes, options, queue);
        if (queue) enqueueAfterStep(context.batchIndex, teacherProjections, classes);
        context.log("information", loss.neg());
        return losses.set("information", loss.mul(options.alpha));
      },

      // Without this hook, the update of the weights can be fused.
      ...(options.queueSize > 0 && {
        afterStep(_step: unknown, next: () => void) {
          next();
          for (const entry of pending.values()) {
            queue?.push(entry.projections, entry.classes);
            free(entry);
          }
          pending.clear();
        },
      }),
    };

    /** If a batch runs several times, only its last projections enter the queue. */
    function enqueueAfterStep(batchIndex: number, projections: Tensor, classes: Tensor): void {
      free(pending.get(batchIndex));
      pending.set(batchIndex, keep({ projections: projections.detach(), classes: classes.clone() }));
    }

    return method;
  },
});

function warnOfWeakSettings(training: TrainingContext, method: TrainingMethod): void {
  const { model, methods } = training.job;
  if (model.architecture.pooling === "pooler" && model.newlyInitialized.some(isPoolerParameter))
    training.warn(
      `${model.reference} has no pre-trained pooler, so the teacher's features pass a random layer, ` +
        "as in RIFT's released code. With pooling: cls, they are the pre-trained ones.",
    );
  // An outer method that perturbs the text in its losses does so after this method's losses.
  const adversary = methods
    .slice(methods.indexOf(method) + 1)
    .find(({ traits, losses }) => traits?.exclusiveRoles?.adversary && losses);
  if (adversary)
    training.warn(
      `rift is listed before ${adversary.name}, so it only sees clean text. ` +
        `For RIFT as published, use --method ${adversary.name} --method rift.`,
    );
}

function computeInformationLoss(
  students: Tensor,
  teachers: Tensor,
  classes: Tensor,
  { tau, negatives }: Pick<z.output<typeof optionsSchema>, "tau" | "negatives">,
  queue: MemoryQueue | null,
): Tensor {
  const computeScores = (anchors: Tensor, candidates: Tensor): Tensor => anchors.matmul(candidates.t()).div(tau);
  if (negatives === "students") return infoNceLoss(computeScores(teachers, students), classes, classes);
  if (!queue) return infoNceLoss(computeScores(students, teachers), classes, classes);
  const queued = queue.contents();
  return infoNceLoss(
    computeScores(students, cat([teachers, queued.entries], 0)),
    classes,
    cat([classes, queued.classes.to("int64")], 0),
  );
}

function stackRows(rows: readonly Float32Array[]): HostTensor {
  const size = rows[0]!.length;
  const values = new Float32Array(rows.length * size);
  for (const [row, features] of rows.entries()) values.set(features, row * size);
  return { values, shape: [rows.length, size] };
}
