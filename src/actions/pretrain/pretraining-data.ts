import { UserError } from "../../base/errors.js";
import type { MaskedLm } from "../../models/index.js";
import type { Example } from "../../tasks/index.js";
import { Rng } from "../../tensor/index.js";
import { maskTokens } from "../../text/mask-tokens.js";
import { packTexts } from "../../text/pack-sequences.js";
import { MAX_TEXT_LENGTH } from "../../text/part-encoder.js";
import { readInputs } from "../../text/read-inputs.js";
import type { Dataset } from "../../train/index.js";

/** Texts for pre-training, one example each. */
export interface PretrainingTexts {
  readonly train: readonly Example[];
  readonly validation: readonly Example[] | null;
}

/** Where the texts of a pre-training come from. */
interface TextSource {
  readonly data: string;
  readonly validationData: string | null;
  readonly validationFraction: number;
}

/**
 * Reads the texts. Without a file for the validation, a fraction of the texts is held out; the same
 * ones for every seed.
 */
export async function readPretrainingTexts(source: TextSource): Promise<PretrainingTexts> {
  const { data, validationData, validationFraction } = source;
  const all = await readTexts(data);
  if (validationData !== null) return { train: all, validation: await readTexts(validationData) };
  if (validationFraction === 0) return { train: all, validation: null };
  if (all.length < 2)
    throw new UserError(
      `${data}: expected at least 2 texts, to hold one out for the validation, received ${all.length}. ` +
        "Write one text per line, pass --validation-data, or set --validation-fraction 0.",
    );
  const count = Math.min(all.length - 1, Math.max(1, Math.round(validationFraction * all.length)));
  const order = new Rng(0).fork("validation texts").shuffle(Int32Array.from(all.keys()));
  const heldOut = new Set(order.subarray(0, count));
  return {
    train: all.filter((_, i) => !heldOut.has(i)),
    validation: all.filter((_, i) => heldOut.has(i)),
  };
}

/** Reads one text per line, or JSON lines. Blank lines are left out, long texts are split. */
async function readTexts(path: string): Promise<Example[]> {
  if (/\.(csv|tsv|parquet)$/i.test(path))
    throw new UserError(
      `${path}: expected one text per line, or JSON lines such as {"text": "…"}, received a table. ` +
        "Write its texts into a .txt or .jsonl file.",
    );
  const examples: Example[] = [];
  for await (const { line, texts } of readInputs(path))
    for (const text of texts)
      for (let start = 0; start < text.length; start += MAX_TEXT_LENGTH) {
        const part = text.slice(start, start + MAX_TEXT_LENGTH);
        if (part.trim() !== "") examples.push({ id: `${line}`, texts: [part], label: 0 });
      }
  return examples;
}

/** How the texts become sequences with masks. */
interface SequenceOptions {
  readonly maxLength: number;
  readonly maskProbability: number;
  readonly wholeWordMasking: boolean;
}

/**
 * Packs texts into sequences. `createStream` returns the random numbers of a sequence in an epoch.
 */
export function createMaskedDataset(
  { tokenizer, maskId }: Pick<MaskedLm, "tokenizer" | "maskId">,
  texts: readonly Example[],
  { maxLength, maskProbability, wholeWordMasking }: SequenceOptions,
  createStream: (epoch: number, index: number) => Rng,
  maxSequences: number | null = null,
): Dataset {
  const packed = packTexts(
    tokenizer,
    texts.map((example) => example.texts[0]!),
    maxLength,
    wholeWordMasking,
  );
  const sequences = packed.slice(0, maxSequences ?? packed.length);
  const maxTokens = maxLength - tokenizer.encode([""], maxLength).ids.length;
  const masking = { probability: maskProbability, maxTokens, maskId };
  return {
    items: sequences.map((encoding, i) => ({ example: { id: `sequence ${i}`, texts: [], label: 0 }, encoding })),
    lengths: Int32Array.from(sequences, ({ ids }) => ids.length),
    truncatedCount: 0,
    maxLength,
    mask: (index, epoch) => maskTokens(sequences[index]!, tokenizer, masking, createStream(epoch, index)),
  };
}
