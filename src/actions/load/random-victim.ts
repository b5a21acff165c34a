import { createHash } from "node:crypto";
import { z } from "zod";
import type { EncodedInput } from "../../attacks/model-victim.js";
import type { PreparedInput, Victim, VictimInput } from "../../attacks/victim.js";
import { UserError } from "../../base/errors.js";
import { countSchema, orNull } from "../../base/validate.js";
import { toPredictions } from "../../evaluation/metrics.js";
import type { Model } from "../../models/index.js";
import { forward } from "../../models/model.js";
import { toModelInput } from "../../models/model-input.js";
import { trainMode } from "../../nn/index.js";
import { createDeletionKernel, type NoiseKernel } from "../../proofs/certificates/index.js";
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

/** The answers of a random victim to one text: one row of probabilities per draw. */
interface Draws<Prepared extends PreparedInput> {
  prepare(input: VictimInput): Prepared;
  /** The same draws for every text, so that a search compares texts and not draws. */
  drawCommon(inputs: readonly Prepared[]): Promise<Float32Array[][]>;
  /** Draws that no search has seen. */
  drawFresh(texts: readonly string[], count: number): Promise<Float32Array[]>;
}

/** The name of the stream of the draws that all texts share. */
const commonStream = "common draws";

/** A stream that depends on the text alone, so that `temper verify` repeats its evaluations. */
function createFreshStream(texts: readonly string[]): Rng {
  return new Rng("fresh draws").fork(JSON.stringify(texts));
}

/** Makes a victim random. An attack then sees the mean over common draws of the noise. */
export function addNoise(
  base: Victim<PreparedInput>,
  options: NoiseOptions,
  local: { readonly model: Model; readonly device: Device } | null,
): Victim<PreparedInput> {
  const { noise, draws, deletionRate } = options;
  if (noise === null) return base;
  const source = createDraws(base, options, local);
  const identity = [base.hash, noise, draws, noise === "deletion" ? deletionRate : null];
  const { exact: _, decidedMargin: __, logits: ___, prepareAll: ____, ...rest } = base;
  return {
    ...rest,
    hash: createHash("sha256").update(JSON.stringify(identity)).digest("hex"),
    maxBatchSize: Math.max(1, Math.floor(base.maxBatchSize / draws)),
    ...(base.maxBatchTokens !== undefined && { maxBatchTokens: Math.max(1, Math.floor(base.maxBatchTokens / draws)) }),
    prepare: (input) => source.prepare(input),
    async probabilities(inputs) {
      return (await source.drawCommon(inputs)).map(average);
    },
    async predictFresh(texts, count) {
      return toPredictions(await source.drawFresh(texts, count));
    },
  };
}

function createDraws(
  base: Victim<PreparedInput>,
  { noise, draws, deletionRate }: NoiseOptions,
  local: { readonly model: Model; readonly device: Device } | null,
): Draws<PreparedInput> {
  if (noise === "deletion") return createDeletionDraws(base, draws, deletionRate) as Draws<PreparedInput>;
  if (noise === "own") {
    if (local)
      throw new UserError(
        `--noise own is for an endpoint or a function. ${base.name} is a model: pass --noise dropout or deletion.`,
      );
    return createOwnDraws(base, draws);
  }
  if (!local || local.model.session)
    throw new UserError(`--noise dropout needs the weights of the model. ${base.name} only answers: pass --noise own.`);
  return createDropoutDraws(base as Victim<EncodedInput>, draws, local) as unknown as Draws<PreparedInput>;
}

function average(rows: readonly Float32Array[]): Float32Array {
  return rows[0]!.map((_, label) => rows.reduce((sum, row) => sum + row[label]!, 0) / rows.length);
}

function splitRows(rows: readonly Float32Array[], draws: number): Float32Array[][] {
  return Array.from({ length: rows.length / draws }, (_, i) => rows.slice(i * draws, (i + 1) * draws));
}

/** A victim with its own randomness is asked several times. Its draws cannot be shared by texts. */
function createOwnDraws(base: Victim<PreparedInput>, draws: number): Draws<PreparedInput> {
  return {
    prepare: (input) => base.prepare(input),
    async drawCommon(inputs) {
      const repeated = inputs.flatMap((input) => new Array<PreparedInput>(draws).fill(input));
      return splitRows(await base.probabilities(repeated), draws);
    },
    drawFresh: (texts, count) => base.probabilities(new Array<PreparedInput>(count).fill(base.prepare(() => texts))),
  };
}

interface DeletedInput extends PreparedInput {
  readonly variants: readonly PreparedInput[];
}

/** Draw i deletes the words of all texts with the same random numbers. */
function createDeletionDraws(base: Victim<PreparedInput>, draws: number, p: number): Draws<DeletedInput> {
  const prepareDraws = (input: VictimInput, count: number, stream: Rng): PreparedInput[] => {
    let kernel: NoiseKernel | null = null;
    return Array.from({ length: count }, (_, i) =>
      base.prepare((unkToken) => {
        kernel ??= createDeletionKernel(input(unkToken), p);
        return kernel(stream.fork(i));
      }),
    );
  };
  return {
    prepare(input) {
      const variants = prepareDraws(input, draws, new Rng(commonStream));
      const length = Math.max(...variants.map((variant) => variant.length));
      return { variants, content: JSON.stringify(input("[UNK]")), length };
    },
    async drawCommon(inputs) {
      return splitRows(await base.probabilities(inputs.flatMap(({ variants }) => variants)), draws);
    },
    drawFresh: (texts, count) => base.probabilities(prepareDraws(() => texts, count, createFreshStream(texts))),
  };
}

/**
 * One batch has all draws of one text. Its masks depend on the seed and the length alone, so texts
 * of equal length share them.
 */
function createDropoutDraws(
  base: Victim<EncodedInput>,
  draws: number,
  { model, device }: { readonly model: Model; readonly device: Device },
): Draws<EncodedInput> {
  const { architecture, weights, tokenizer } = model;
  const draw = ({ encoding }: EncodedInput, seed: number, count: number): Float32Array[] => {
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
    prepare: (input) => base.prepare(input),
    async drawCommon(inputs) {
      const rows: Float32Array[][] = [];
      for (const input of inputs) {
        rows.push(draw(input, seed, draws));
        await new Promise(setImmediate);
      }
      return rows;
    },
    drawFresh: async (texts, count) =>
      draw(
        base.prepare(() => texts),
        createFreshStream(texts).seed(),
        count,
      ),
  };
}

function splitValues(values: Float32Array, count: number): Float32Array[] {
  const width = values.length / count;
  return Array.from({ length: count }, (_, i) => values.slice(i * width, (i + 1) * width));
}
