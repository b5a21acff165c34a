import { z } from "zod";
import { UserError } from "../../base/errors.js";
import {
  computeInitialStd,
  createHull,
  embedHull,
  findModifiableWords,
  type Hull,
  hullSchema,
  type ModifiableWords,
  mixEmbeddings,
  packHull,
  packMixtures,
} from "../../hull/convex-hull.js";
import { createHullModel } from "../../hull/hull-model.js";
import { evalMode, klDivergence, klDivergencePerExample, trainMode } from "../../nn/index.js";
import { randn, scope, type Tensor } from "../../tensor/index.js";
import { buildAttackSpace } from "../../text/replacements.js";
import { type BatchContext, getWordLevelEncoding, type PassName, type TokenizedExample } from "../../train/index.js";
import { defineMethod } from "../define-method.js";
import { computeRobustAccuracy } from "./robust-accuracy.js";

/** Examples to check before training. If none has a substitute, the table does not fit the data. */
const numCheckedExamples = 200;

export const ascc = defineMethod({
  name: "ascc",
  summary: "adversarial fine-tuning in the convex hull of each word's substitutes (Adv-Base)",
  paper: "Dong et al., ICLR 2021; RIFT eq. 8 and 9",
  cost: {
    gpu: "8.0 (2.9 with one inner step, 2.2 with interval=2, too)",
    cpu: "8.6 (3.0 with one inner step, 2.0 with interval=2, too)",
  },
  options: hullSchema.extend({
    beta: z.number().nonnegative().default(10).describe("weight of the divergence between clean and perturbed text"),
    interval: z.int().min(1).default(1).describe("the adversary runs in every n-th step; others are standard"),
    robustAccuracy: z
      .enum(["clean-and-attacked", "attacked"])
      .default("clean-and-attacked")
      .describe(
        "texts that robust-accuracy counts: correct before and after the attack, or correct after it (released code)",
      ),
  }),
  requires: { tokenization: "word", substitutions: "wordnet" },
  bestModelMetric: "robust-accuracy",
  create: (options) => {
    const known = new WeakMap<TokenizedExample, ModifiableWords>();
    let findWords: (item: TokenizedExample) => ModifiableWords = () => {
      throw new Error("ascc was not prepared.");
    };
    const getModifiableWords = (item: TokenizedExample): ModifiableWords => {
      const words = known.get(item) ?? findWords(item);
      known.set(item, words);
      return words;
    };

    const hasAdversary = (stepIndex: number): boolean => stepIndex % options.interval === 0;

    return {
      name: "ascc",
      traits: {
        exclusiveRoles: { adversary: "searches its own perturbation" },
        graphKey: (stepIndex) => (hasAdversary(stepIndex) ? "" : "standard"),
      },

      checkCompatibility(_innerMethods, { model, task }) {
        if (model.tokenization === "subword")
          return (
            `substitutions need one token per word, but the model has tokenization: ${model.tokenization}. ` +
            "Set tokenization: word and substitutions: wordnet (--tokenization word --substitutions wordnet)."
          );
        if (task.modifiableFields.length === 0)
          return `task ${task.name} has no modifiable field. Use a task whose words may be substituted.`;
        return null;
      },

      async prepare(training) {
        const { model, task, train } = training.job;
        const substitutions = await training.loadSubstitutions();
        findWords = (item) => {
          const { words, fields, positions } = getWordLevelEncoding(item);
          const { candidatesPerWord } = options;
          const space = buildAttackSpace(words, fields, task.modifiableFields, substitutions, candidatesPerWord);
          return findModifiableWords(space, positions, (word) => model.tokenizer.wordToId(word));
        };
        const checked = train.items.slice(0, numCheckedExamples);
        const isFixed = (item: TokenizedExample): boolean => getModifiableWords(item).candidateIds.length === 0;
        if (options.candidatesPerWord > 1 && checked.length > 0 && checked.every(isFixed))
          throw new UserError(
            `method ascc: no word of the first ${checked.length} examples has a substitute in ${substitutions.name}. ` +
              "Check that the substitutions fit the language of the texts.",
          );
      },

      collate({ items, padded }) {
        const { candidatesPerWord } = options;
        const hull = packHull(items.map(getModifiableWords), padded.sequenceLength, candidatesPerWord);
        return Object.fromEntries(Object.entries(hull).map(([name, array]) => [`ascc.${name}`, array]));
      },

      /** RIFT eq. 9: cross-entropy + beta KL(clean || perturbed), with gradients through both. */
      losses(context, next) {
        const losses = new Map(next());
        if (!hasAdversary(context.stepIndex)) return losses;
        const hull = createHull((name) => context.batch.getExtra(`ascc.${name}`));
        const mixtureWeights = searchMixture(context, hull, options);
        const { attentionBias, packing = null } = context.batch.input;
        const perturbed = context.pass("perturbed", {
          input: (name) => ({ ...perturb(context, hull, mixtureWeights, name), attentionBias, packing }),
        });
        return losses.set("robust", klDivergence(context.pass("clean").logits, perturbed.logits).mul(options.beta));
      },

      extraMetrics: async (training, items) => ({
        "robust-accuracy": await computeRobustAccuracy(training, items, getModifiableWords, options),
      }),
    };
  },
});

/** RIFT eq. 8: the mixture weights with the largest divergence from the clean prediction. */
function searchMixture(context: BatchContext, hull: Hull, options: z.output<typeof hullSchema>): Tensor {
  const { model, deviceConfig } = context.training.job;
  const { input, sequenceLength } = context.batch;
  const weights = context.weights("search", evalMode);
  return scope(() => {
    const hullModel = createHullModel(model.architecture, weights, input, hull, options);
    const clean = hullModel.computeCleanLogits();
    context.enterRandomStream("search");
    const noise = randn(hull.candidateMask.shape, { device: deviceConfig.device });
    const random = noise.mul(computeInitialStd(sequenceLength, options.candidatesPerWord));
    return hullModel.search(random, (logits) => klDivergencePerExample(clean, logits).sum());
  });
}

/** The perturbed embeddings in training mode: with dropout, and with constant mixture weights. */
function perturb(
  context: BatchContext,
  hull: Hull,
  mixtureWeights: Tensor,
  name: PassName,
): { embeddingOutput: Tensor; isPacked: boolean } {
  const { model } = context.training.job;
  const weights = context.weights(name, trainMode);
  context.enterRandomStream(name, "embedding");
  return scope(() => {
    const mode = context.resolveMode(trainMode);
    const embedding = embedHull(model.architecture.config, weights, context.batch.input, hull, mode);
    const mixed = packMixtures(model.architecture.config, weights, hull, context.batch.input);
    return { embeddingOutput: mixEmbeddings(embedding, mixed, mixtureWeights), isPacked: mixed.isPacked };
  });
}
