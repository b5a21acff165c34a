import { z } from "zod";
import { embedHull, type Hull, initialDeviation, mixSlots, searchHull } from "../attacks/convex-hull.js";
import { hullSchema, hullWidth, searchOf } from "../attacks/hardest-slots.js";
import { type OpenWords, openWords, packHull } from "../attacks/open-words.js";
import { UserError } from "../errors.js";
import { forward } from "../models/index.js";
import { divergence, divergences, evaluating, mapWeights, training } from "../nn/index.js";
import { randn, scope, type Tensor } from "../tensor/index.js";
import { slotsOf } from "../text/slots.js";
import { type Batch, type Item, type Layer, type Step, wordsOf } from "../train/index.js";
import { defineMethod } from "./method.js";
import { robustAccuracy } from "./robust-accuracy.js";

/** Texts looked at before training: none of them open shows a table that does not fit. */
const sampled = 200;

/** Adversarial fine-tuning over the convex hull of substitutes: RIFT's Adv-Base. */
export const ascc = defineMethod({
  name: "ascc",
  summary: "adversarial fine-tuning over the convex hull of each word's substitutes (Adv-Base)",
  paper: "Dong et al., ICLR 2021; RIFT eq. 8 and 9",
  options: hullSchema.extend({
    beta: z.number().nonnegative().default(10).describe("weight of the divergence between clean and perturbed text"),
  }),
  create: (options) => {
    const known = new WeakMap<Item, OpenWords>();
    let find: (item: Item) => OpenWords = () => {
      throw new Error("ascc was not prepared");
    };
    const openOf = (item: Item): OpenWords => {
      const words = known.get(item) ?? find(item);
      known.set(item, words);
      return words;
    };

    const layer: Layer = {
      name: "ascc",
      owns: { adversary: "perturbs the text by a search of its own" },
      selectBy: "robust-accuracy",

      refuses(_beneath, { model, task }) {
        if (model.encoding !== "word")
          return `substitutes need one token a word: expected encoding: word, received encoding: ${model.encoding}; set encoding: word`;
        if (task.openFields.length === 0)
          return `the task ${task.name} has no open field: no word of it may be substituted; use a task with one`;
        return null;
      },

      async prepare(run) {
        const substitutions = await run.substitutions();
        const { tokenizer } = run.model;
        find = (item) => {
          const { words, fields, positions } = wordsOf(item);
          const { choices } = slotsOf(words, fields, run.task.openFields, substitutions, { slots: options.slots });
          return openWords(choices, positions, (word) => tokenizer.wordToken(word));
        };
        const first = run.dataset.items.slice(0, sampled);
        if (options.slots > 1 && first.length > 0 && first.every((item) => openOf(item).tokens.length === 0))
          throw new UserError(
            `method ascc: none of the words of ${first.length} examples has a substitute in ${substitutions.name}; check that it fits the texts' language`,
          );
      },

      collate({ items, padded }) {
        const { count, width, tokens, open, places, index } = packHull(items.map(openOf), padded.length, hullWidth(options));
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
        const hull = hullOf(step.batch);
        const perturbed = step.pass("perturbed", {
          input: { embedded: perturb(step, hull, search(step, hull)), bias: step.batch.input.bias },
        });
        return losses.set("robust", divergence(step.pass("clean").logits, perturbed.logits).mul(options.beta));
      },

      evaluate: async (run, items) => ({ "robust-accuracy": await robustAccuracy(run, items, openOf, options) }),
    };

    /** RIFT eq. 8: the shares of most divergence from the clean prediction, without dropout and without the labels. */
    function search(step: Step, hull: Hull): Tensor {
      const { shape } = step.run.model;
      const { input, length } = step.batch;
      const weights = step.weights("search", evaluating);
      return scope(() => {
        const fixed = mapWeights(weights, (tensor) => tensor.detach());
        const logits = (embedded: Tensor): Tensor => forward(shape, fixed, { embedded, bias: input.bias }, evaluating).logits;
        const embedding = embedHull(shape.config, fixed, input, hull, evaluating);
        const clean = scope(() => logits(embedding.text));
        step.random("search");
        const start = randn(hull.open.shape, { device: step.run.device }).mul(initialDeviation(length, options.slots));
        return searchHull(embedding, hull, start, (embedded) => divergences(clean, logits(embedded)).sum(), searchOf(options));
      });
    }

    return layer;
  },
});

/** The perturbed embeddings with gradients: all slots embedded anew in training mode, mixed by fixed shares. */
function perturb(step: Step, hull: Hull, shares: Tensor): Tensor {
  const { model, settings } = step.run;
  const weights = step.weights("perturbed", training);
  step.random("perturbed", "embedding");
  return scope(() =>
    mixSlots(embedHull(model.shape.config, weights, step.batch.input, hull, { training: settings.dropout }), hull, shares),
  );
}

function hullOf(batch: Batch): Hull {
  const [tokens, open, places, index] = ["tokens", "open", "places", "index"].map((name) => batch.extra(`ascc.${name}`));
  return { tokens, open, places, index } as Hull;
}
