import { createHash } from "node:crypto";
import { z } from "zod";
import type { AbleVictim, RandomAnswers } from "../../attacks/victim.js";
import { UserError } from "../../base/errors.js";
import { countSchema, orNull } from "../../base/validate.js";
import { toPredictions } from "../../evaluation/metrics.js";
import type { Model } from "../../models/index.js";
import { splitCalls } from "../../models/inference/predict-in-calls.js";
import type { EncodedText, Identified, PreparedText } from "../../models/inference/predictor.js";
import { forward } from "../../models/model.js";
import { toModelInput } from "../../models/model-input.js";
import { trainMode } from "../../nn/index.js";
import { createDeletionKernel } from "../../proofs/certificates/index.js";
import { type Device, noGrad, Rng, scope, seedGenerator } from "../../tensor/index.js";
import { padBatch } from "../../text/batch.js";

/** A model that is random at test time. */
export const noiseOptions = {
  noise: orNull(z.enum(["dropout", "deletion", "own"]), "none").describe(
    "randomness of the model at test time: dropout, deletion of words, or own for an endpoint or a " +
      "function that is random itself",
  ),
  deletionRate: z.number().gt(0).lt(1).default(0.3).describe("probability that the noise deletes a word"),
  draws: countSchema.max(1000).default(16).describe("the search sees the mean of this many draws of the noise"),
};
export type NoiseOptions = z.output<z.ZodObject<typeof noiseOptions>>;

type Texts = readonly string[];

/** The answers of a random victim: one row of probabilities per draw. */
interface Draws<Item extends PreparedText> {
  prepare(texts: readonly Texts[]): Item[];
  /** The same draws for every text, so that a search compares texts and not draws. */
  drawCommon(items: readonly Item[]): Promise<ArrayLike<number>[][]>;
  /** Draws that no search has seen. */
  drawFresh(texts: Texts, count: number): Promise<ArrayLike<number>[]>;
}

/** The name of the stream of the draws that all texts share. */
const commonStream = "common draws";

/** A stream that depends on the text alone, so that `temper verify` repeats its evaluations. */
function createFreshStream(texts: Texts): Rng {
  return new Rng("fresh draws").fork(JSON.stringify(texts));
}

/** Makes a victim random. An attack then sees the mean over common draws of the noise. */
export function addNoise(
  // The draws read the characters of a text.
  { prepareEdited: _, ...base }: AbleVictim & Identified,
  options: NoiseOptions & { readonly noise: NonNullable<NoiseOptions["noise"]> },
  local: { readonly model: Model; readonly device: Device } | null,
): AbleVictim & Identified & RandomAnswers {
  const { noise, draws, deletionRate } = options;
  const { prepare, drawCommon, drawFresh } = createDraws(base, options, local);
  const identity = [base.hash, noise, draws, noise === "deletion" ? deletionRate : null];
  const share = (count: number): number => Math.max(1, Math.floor(count / draws));
  const { maxTexts, maxTokens } = base.callLimits;
  return splitCalls({
    ...base,
    hash: createHash("sha256").update(JSON.stringify(identity)).digest("hex"),
    returnsLogits: false,
    callLimits: { maxTexts: share(maxTexts), ...(maxTokens !== undefined && { maxTokens: share(maxTokens) }) },
    prepare,
    predict: async (items: readonly PreparedText[]) =>
      (await drawCommon(items)).map((rows) => ({ probabilities: average(rows) })),
    async predictFresh(texts: Texts, count: number) {
      return toPredictions(await drawFresh(texts, count));
    },
  });
}

function createDraws(
  base: AbleVictim,
  { noise, draws, deletionRate }: NoiseOptions,
  local: { readonly model: Model; readonly device: Device } | null,
): Draws<PreparedText> {
  if (noise === "deletion") return createDeletionDraws(base, draws, deletionRate) as Draws<PreparedText>;
  if (noise === "own") {
    if (local)
      throw new UserError(
        `--noise own is for an endpoint or a function. ${base.name} is a model: pass --noise dropout or deletion.`,
      );
    return createOwnDraws(base, draws);
  }
  if (!local || local.model.session)
    throw new UserError(`--noise dropout needs the weights of the model. ${base.name} only answers: pass --noise own.`);
  return createDropoutDraws(base as AbleVictim<EncodedText>, draws, local) as Draws<PreparedText>;
}

function average(rows: readonly ArrayLike<number>[]): Float32Array {
  return Float32Array.from(rows[0]!, (_, label) => rows.reduce((sum, row) => sum + row[label]!, 0) / rows.length);
}

async function predictRows(base: AbleVictim, items: readonly PreparedText[]): Promise<ArrayLike<number>[]> {
  return (await base.predict(items)).map(({ probabilities }) => probabilities);
}

function splitRows<Row>(rows: readonly Row[], draws: number): Row[][] {
  return Array.from({ length: rows.length / draws }, (_, i) => rows.slice(i * draws, (i + 1) * draws));
}

/** A victim with its own randomness is asked several times. Its draws cannot be shared by texts. */
function createOwnDraws(base: AbleVictim, draws: number): Draws<PreparedText> {
  return {
    prepare: (texts) => base.prepare(texts),
    async drawCommon(items) {
      const repeated = items.flatMap((item) => new Array<PreparedText>(draws).fill(item));
      return splitRows(await predictRows(base, repeated), draws);
    },
    drawFresh: (texts, count) => predictRows(base, base.prepare(new Array<Texts>(count).fill(texts))),
  };
}

/** Draw i deletes the words of all texts with the same random numbers. */
function createDeletionDraws(
  base: AbleVictim,
  draws: number,
  p: number,
): Draws<PreparedText & { readonly variants: readonly PreparedText[] }> {
  const prepareDraws = (texts: Texts, count: number, stream: Rng): PreparedText[] => {
    const kernel = createDeletionKernel(texts, p);
    return base.prepare(Array.from({ length: count }, (_, i) => kernel(stream.fork(i))));
  };
  return {
    prepare: (all) =>
      all.map((texts) => {
        const variants = prepareDraws(texts, draws, new Rng(commonStream));
        const length = Math.max(...variants.map((variant) => variant.length));
        return { variants, content: JSON.stringify(texts), length };
      }),
    async drawCommon(items) {
      return splitRows(
        await predictRows(
          base,
          items.flatMap(({ variants }) => variants),
        ),
        draws,
      );
    },
    drawFresh: (texts, count) => predictRows(base, prepareDraws(texts, count, createFreshStream(texts))),
  };
}

/**
 * One batch has all draws of one text. Its masks depend on the seed and the length alone, so texts
 * of equal length share them.
 */
function createDropoutDraws(
  base: AbleVictim<EncodedText>,
  draws: number,
  { model, device }: { readonly model: Model; readonly device: Device },
): Draws<EncodedText> {
  const { architecture, weights, tokenizer } = model;
  const draw = ({ encoding }: EncodedText, seed: number, count: number): Float32Array[] => {
    seedGenerator(device, seed);
    const batch = padBatch(new Array<typeof encoding>(count).fill(encoding), tokenizer.special.padId);
    const values = scope(() =>
      noGrad(() => {
        const input = toModelInput(batch, architecture.config, device);
        return forward(architecture, weights, input, trainMode).logits.to("float32").softmax(-1).toFloat32Array();
      }),
    );
    return splitValues(values, count);
  };
  const seed = new Rng(commonStream).seed();
  return {
    prepare: (texts) => base.prepare(texts),
    async drawCommon(items) {
      const rows: Float32Array[][] = [];
      for (const item of items) {
        rows.push(draw(item, seed, draws));
        await new Promise(setImmediate);
      }
      return rows;
    },
    drawFresh: async (texts, count) => draw(base.prepare([texts])[0]!, createFreshStream(texts).seed(), count),
  };
}

function splitValues(values: Float32Array, count: number): Float32Array[] {
  const width = values.length / count;
  return Array.from({ length: count }, (_, i) => values.slice(i * width, (i + 1) * width));
}
