import { z } from "zod";
import { UserError } from "../base/errors.js";

const flag = z.boolean().default(false);

/** The fields of an added token in tokenizer.json and tokenizer_config.json. */
export const addedTokenFields = {
  content: z.string(),
  /** Match only between non-word characters. */
  single_word: flag,
  /** Also consume the white space on the left (right). */
  lstrip: flag,
  rstrip: flag,
  /** Search the normalized content in the normalized text. */
  normalized: flag,
  special: flag,
};

const addedTokenSchema = z.object(addedTokenFields);

/** A token that is searched in a text before it is split into words. */
export type AddedToken = Readonly<z.output<typeof addedTokenSchema>> & { readonly id: number };

/** Creates an added token as transformers does for its special tokens. */
export function createSpecialToken(content: string, id: number): AddedToken {
  return { id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
}

const MAX_VOCAB_SIZE = 1 << 24;

export const tokenId = z
  .int()
  .min(0)
  .max(MAX_VOCAB_SIZE - 1);

/** Parses a vocabulary object that maps tokens to IDs. `source` names it in messages. */
export function readVocabulary(value: unknown, source: string): Map<string, number> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new UserError(
      `${source}: expected an object that maps tokens to IDs. The file may be damaged; download it again.`,
    );
  }
  const vocabulary = new Map<string, number>();
  for (const [token, id] of Object.entries(value)) {
    if (!Number.isInteger(id) || id < 0 || id >= MAX_VOCAB_SIZE) {
      throw new UserError(
        `${source}: the ID of ${JSON.stringify(token)}: expected an integer from 0 to ${MAX_VOCAB_SIZE - 1}, ` +
          `received ${JSON.stringify(id)}.`,
      );
    }
    vocabulary.set(token, id);
  }
  return vocabulary;
}

/** Returns a function that looks up a token and throws an error if it is missing. */
export function createTokenLookup(vocabulary: ReadonlyMap<string, number>, source: string): (token: string) => number {
  return (token) => {
    const id = vocabulary.get(token);
    if (id === undefined)
      throw new UserError(
        `${source}: the token ${JSON.stringify(token)} is missing. The file is incomplete or belongs to another model.`,
      );
    return id;
  };
}
