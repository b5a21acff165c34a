import { z } from "zod";
import { getHullWidth, hullSchema, toHullSearchOptions } from "../../attacks/ascc-search.js";
import { computeInitialStd, embedHull, type Hull, mixEmbeddings, searchHull } from "../../attacks/convex-hull.js";
import { type ModifiableWords, modifiableWords, packHull } from "../../attacks/open-words.js";
import { UserError } from "../../errors.js";
import { forward } from "../../models/index.js";
import { evalMode, klDivergence, klDivergencePerExample, mapWeights, trainMode } from "../../nn/index.js";
import { randn, scope, type Tensor } from "../../tensor/index.js";
import { buildAttackSpace } from "../../text/replacements.js";
import {
  type Batch,
  type BatchContext,
  getWordLevelEncoding,
  type TokenizedExample,
  type TrainingMethod,
} from "../../train/index.js";
import { defineMethod } from "../define-method.js";
import { computeRobustAccuracy } from "./robust-accuracy.js";

/** Texts looked at before training: none of them open shows a table that does not fit. */
const checkedExamples = 200;

/** Adversarial fine-tuning over the convex hull of substitutes: RIFT's Adv-Base. */
export const ascc = defineMethod({
  name: "ascc",
  summary: "adversarial fine-tuning over the convex hull of each word's substitutes (Adv-Base)",
  paper: "Dong et al., ICLR 2021; RIFT eq. 8 and 9",
  options: hullSchema.extend({
    beta: z.number().nonnegative().default(10).describe("weight of the divergence between clean and perturbed text"),
  }),
  create: (options) => {
    const known = new WeakMap<TokenizedExample, ModifiableWords>();
    let find: (item: TokenizedExample) => ModifiableWords = () => {
      throw new Error("ascc was not prepared");
    };
    const getModifiableWords = (item: TokenizedExample): ModifiableWords => {
      const words = known.get(item) ?? find(item);
      known.set(item, words);
      return words;
    };

    const layer: TrainingMethod = {
      name: "ascc",
      exclusiveRoles: { adversary: "perturbs the text by a search of its own" },
      bestModelMetric: "robust-accuracy",

      checkCompatibility(_beneath, { model, task }) {
        if (model.tokenization !== "word")
          return `substitutes need one token a word: expected encoding: word, received encoding: ${model.tokenization}; set encoding: word`;
        if (task.modifiableFields.length === 0)
          return `the task ${task.name} has no open field: no word of it may be substituted; use a task with one`;
        return null;
      },

      async prepare(run) {
        const substitutions = await run.loadSubstitutions();
        const { tokenizer } = run.model;
        find = (item) => {
          const { words, fields, positions } = getWordLevelEncoding(item);
          const { replacements: choices } = buildAttackSpace(words, fields, run.task.modifiableFields, substitutions, {
            candidatesPerWord: options.candidatesPerWord,
          });
          return modifiableWords(choices, positions, (word) => tokenizer.wordToId(word));
        };
        const first = run.dataset.items.slice(0, checkedExamples);
        if (
          options.candidatesPerWord > 1 &&
          first.length > 0 &&
          first.every((item) => getModifiableWords(item).candidateIds.length === 0)
        )
          throw new UserError(
            `method ascc: none of the words of ${first.length} examples has a substitute in ${substitutions.name}; check that it fits the texts' language`,
          );
      },

      collate({ items, padded }) {
        const {
          count,
          width,
          candidateIds: tokens,
          candidateMask: open,
          positions: places,
          index,
        } = packHull(items.map(getModifiableWords), padded.sequenceLength, getHullWidth(options));
        return {
          "ascc.tokens": { values: tokens, shape: [count, width] },
          "ascc.open": { values: open, shape: [count, width] },
          "ascc.places": { values: places, shape: [count, 1] },
          "ascc.index": { values: index, shape: [index.length] },
        };
      },

      /** RIFT eq. 9: cross-entropy + beta KL(clean || perturbed), with gradients through both sides. */
      losses(step, next) {
        const losses = new Map(next());
        const hull = getHull(step.batch);
        const perturbed = step.pass("perturbed", {
          input: {
            embeddingOutput: perturb(step, hull, search(step, hull)),
            attentionBias: step.batch.input.attentionBias,
          },
        });
        return losses.set("robust", klDivergence(step.pass("clean").logits, perturbed.logits).mul(options.beta));
      },

      extraMetrics: async (run, items) => ({
        "robust-accuracy": await computeRobustAccuracy(run, items, getModifiableWords, options),
      }),
    };

    /** RIFT eq. 8: the shares of most divergence from the clean prediction, without dropout and without the labels. */
    function search(step: BatchContext, hull: Hull): Tensor {
      const { architecture: shape } = step.run.model;
      const { input, sequenceLength: length } = step.batch;
      const weights = step.weights("search", evalMode);
      return scope(() => {
        const fixed = mapWeights(weights, (tensor) => tensor.detach());
        const logits = (embedded: Tensor): Tensor =>
          forward(shape, fixed, { embeddingOutput: embedded, attentionBias: input.attentionBias }, evalMode).logits;
        const embedding = embedHull(shape.config, fixed, input, hull, evalMode);
        const clean = scope(() => logits(embedding.text));
        step.enterRandomStream("search");
        const start = randn(hull.candidateMask.shape, { device: step.run.device }).mul(
          computeInitialStd(length, options.candidatesPerWord),
        );
        return searchHull(
          embedding,
          hull,
          start,
          (embedded) => klDivergencePerExample(clean, logits(embedded)).sum(),
          toHullSearchOptions(options),
        );
      });
    }

    return layer;
  },
});

/** The perturbed embeddings with gradients: all slots embedded anew in training mode, mixed by fixed shares. */
function perturb(step: BatchContext, hull: Hull, mixtureWeights: Tensor): Tensor {
  const { model, settings } = step.run;
  const weights = step.weights("perturbed", trainMode);
  step.enterRandomStream("perturbed", "embedding");
  return scope(() =>
    mixEmbeddings(
      embedHull(model.architecture.config, weights, step.batch.input, hull, { training: settings.dropout }),
      hull,
      mixtureWeights,
    ),
  );
}

function getHull(batch: Batch): Hull {
  const [tokens, open, places, index] = ["tokens", "open", "places", "index"].map((name) =>
    batch.getExtra(`ascc.${name}`),
  );
  return { candidateIds: tokens, candidateMask: open, positions: places, index } as Hull;
}
