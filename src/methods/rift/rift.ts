import { z } from "zod";
import { doesHeadReadFeatures, isPoolerParameter } from "../../models/index.js";
import { cat, free, keep, type Tensor } from "../../tensor/index.js";
import type { NamedTensors, TrainingMethod } from "../../train/index.js";
import { defineMethod, nonnegativeSchema } from "../define-method.js";
import { infoNceLoss } from "./info-nce.js";
import { MemoryQueue } from "./memory-queue.js";
import { initProjections, project } from "./projection-heads.js";
import { computeTeacherFeatures } from "./teacher-features.js";

const sizeSchema = z.number().int().positive();

/** A layer whose features are retained: the names of its projections, and its negatives. */
interface Layer {
  readonly prefix: string;
  readonly queue: MemoryQueue | null;
}

/**
 * Robust Informative Fine-Tuning: retains the information of the pre-trained model, given the
 * class.
 */
export const rift = defineMethod({
  name: "rift",
  summary: "retains the information that features share with the pre-trained model, per class; RIFT on top of ascc",
  paper: "Dong et al., NeurIPS 2021, eq. 10 and 11",
  cost: { gpu: "8.1 with ascc, as ascc alone", cpu: "1.0 without ascc" },
  options: z
    .strictObject({
      alpha: nonnegativeSchema
        .default(0.1)
        .describe("weight of the information term; the paper uses 0.1 on IMDB and 0.7 on SNLI"),
      alphaEnd: nonnegativeSchema
        .nullable()
        .default(null)
        .describe("weight in the last epoch; it changes linearly from epoch to epoch. null: alpha in all epochs"),
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
      numLayers: sizeSchema
        .default(1)
        .describe("layers, counted from the last, whose features are retained; the loss is the mean over them"),
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
    }),
  create: (options) => {
    let parameters: NamedTensors = new Map();
    /** The layers whose features are retained, the last one first. */
    let layers: readonly Layer[] = [];
    let teachers: { features: Float32Array; size: number } = { features: new Float32Array(), size: 0 };
    let numEpochs = 1;
    /** Projections that enter the queues after the optimizer step, by batch index. */
    const pending = new Map<number, { projections: Tensor[]; classes: Tensor }>();

    const method: TrainingMethod = {
      name: "rift",
      traits: {
        acrossProcesses: "gathered",
        requiresFullBatch: "the negatives of an example are the other examples of its batch",
        numFeatureLayers: options.numLayers,
      },

      // Eq. 9 and 10 share one feature: what RIFT retains must be what the classifier reads.
      checkCompatibility(_innerMethods, { model: { architecture } }) {
        const { numHiddenLayers } = architecture.config;
        if (options.numLayers > numHiddenLayers)
          return `numLayers: expected at most the ${numHiddenLayers} layers of the model, received ${options.numLayers}.`;
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
        if (model.architecture.pooling === "pooler" && model.newlyInitialized.some(isPoolerParameter))
          training.warn(
            `${model.reference} has no pre-trained pooler, so the teacher's features pass a random layer, ` +
              "as in RIFT's released code. With pooling: cls, they are the pre-trained ones.",
          );
        // An outer method that perturbs the text in its losses does so after this method's losses.
        const { methods } = training.job;
        const adversary = methods
          .slice(methods.indexOf(method) + 1)
          .find(({ traits, losses }) => traits?.exclusiveRoles?.adversary && losses);
        if (adversary)
          training.warn(
            `rift is listed before ${adversary.name}, so it only sees clean text. ` +
              `For RIFT as published, use --method ${adversary.name} --method rift.`,
          );
        const { hiddenSize } = model.architecture.config;
        const { queueSize, projectionHiddenSize, projectionSize, numLayers } = options;
        const pairs = options.conditional ? model.architecture.numLabels : 1;
        const sizes = { pairs, feature: hiddenSize, hidden: projectionHiddenSize, out: projectionSize };
        const rng = training.rng.fork("rift");
        layers = Array.from({ length: numLayers }, (_, depth) => {
          const prefix = depth === 0 ? "rift." : `rift.below${depth}.`;
          return {
            prefix,
            queue: queueSize > 0 ? new MemoryQueue(`${prefix}queue.`, pairs, queueSize, projectionSize, device) : null,
          };
        });
        parameters = new Map(
          layers.flatMap(({ prefix }, depth) => [
            ...initProjections(prefix, sizes, depth === 0 ? rng : rng.fork("below", depth), device),
          ]),
        );
        teachers = { features: await computeTeacherFeatures(training, numLayers), size: numLayers * hiddenSize };
        numEpochs = training.job.settings.epochs;
      },

      state: () => ({
        parameters,
        ...(options.queueSize > 0 && {
          buffers: new Map(layers.flatMap(({ queue }) => [...(queue?.buffers() ?? [])])),
        }),
      }),

      collate({ indices, epoch }) {
        const { features, size } = teachers;
        const values = new Float32Array(indices.length * size);
        for (const [row, index] of indices.entries())
          values.set(features.subarray(index * size, (index + 1) * size), row * size);
        const teacher = { "rift.teacher": { values, shape: [indices.length, size] } };
        if (options.alphaEnd === null) return teacher;
        const progress = Math.min(1, epoch / Math.max(1, Math.ceil(numEpochs) - 1));
        const alpha = options.alpha + (options.alphaEnd - options.alpha) * progress;
        return { ...teacher, "rift.alpha": { values: Float32Array.of(alpha), shape: [] } };
      },

      /**
       * RIFT eq. 11: inner losses + alpha L_info. The student sees the perturbed text, if any; the
       * teacher never does.
       */
      losses(context, next) {
        const losses = new Map(next());
        const { labels } = context.batch;
        const classes = options.conditional ? labels : labels.mul(0);
        const seen = context.hasPass("perturbed") ? "perturbed" : "clean";
        const pass = options.separatePass ? context.repeatPass(seen, "rift.information") : context.pass(seen);
        // The negatives are the other examples of the global batch.
        const allClasses = context.gatherRows(classes);
        const students = [pass.features, ...[...pass.lowerFeatures].reverse()];
        const teacherFeatures = context.batch.getExtra("rift.teacher"); // the lowest layer first
        const hiddenSize = teacherFeatures.size(1) / layers.length;
        const teacherProjections: Tensor[] = [];
        const layerLosses = layers.map(({ prefix, queue }, depth) => {
          const start = (layers.length - 1 - depth) * hiddenSize;
          const features = teacherFeatures.narrow(1, start, hiddenSize);
          const projectFeatures = (side: string, input: Tensor): Tensor =>
            context.gatherRows(project(parameters, `${prefix}${side}`, input, classes));
          const student = projectFeatures("student", students[depth]!.to("float32"));
          const teacher = projectFeatures("teacher", features);
          teacherProjections.push(teacher);
          return computeInformationLoss(student, teacher, allClasses, queue);
        });
        const loss = layerLosses.reduce((sum, each) => sum.add(each)).div(layers.length);
        if (options.queueSize > 0) enqueueAfterStep(context.batchIndex, teacherProjections, allClasses);
        context.log("information", loss.neg());
        const alpha = options.alphaEnd === null ? options.alpha : context.batch.getExtra("rift.alpha");
        return losses.set("information", loss.mul(alpha));
      },

      // Without this hook, the update of the weights can be fused.
      ...(options.queueSize > 0 && {
        afterStep(_step: unknown, next: () => void) {
          next();
          for (const entry of pending.values()) {
            for (const [depth, projections] of entry.projections.entries())
              layers[depth]!.queue?.push(projections, entry.classes);
            free(entry);
          }
          pending.clear();
        },
      }),
    };

    function computeInformationLoss(
      students: Tensor,
      teachers: Tensor,
      classes: Tensor,
      queue: MemoryQueue | null,
    ): Tensor {
      const computeScores = (anchors: Tensor, candidates: Tensor): Tensor =>
        anchors.matmul(candidates.t()).div(options.tau);
      if (options.negatives === "students") return infoNceLoss(computeScores(teachers, students), classes, classes);
      if (!queue) return infoNceLoss(computeScores(students, teachers), classes, classes);
      const queued = queue.contents();
      return infoNceLoss(
        computeScores(students, cat([teachers, queued.entries], 0)),
        classes,
        cat([classes, queued.classes.to("int64")], 0),
      );
    }

    /** If a batch runs several times, only its last projections enter the queue. */
    function enqueueAfterStep(batchIndex: number, projections: readonly Tensor[], classes: Tensor): void {
      free(pending.get(batchIndex));
      const detached = projections.map((each) => each.detach());
      pending.set(batchIndex, keep({ projections: detached, classes: classes.clone() }));
    }

    return method;
  },
});
