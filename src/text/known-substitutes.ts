import { createHash } from "node:crypto";
import type { Tokenizer } from "./encoding.js";
import type { Substitutions } from "./substitutions.js";

/**
 * A substitution set without the words that the word encoding of a model makes [UNK] of. Such a word takes its place out of the text
 * rather than say it otherwise: in the counter-fitted table every fourth substitute is one to BERT.
 */
export function filterInVocabSubstitutes(table: Substitutions, tokenizer: Tokenizer): Substitutions {
  return {
    name: `${table.name}, words that the model knows`,
    hash: createHash("sha256").update(`${table.hash} known to ${tokenizer.hash}`).digest("hex"),
    usesPartOfSpeech: table.usesPartOfSpeech,
    getSubstitutes: (word, partOfSpeech) =>
      table.getSubstitutes(word, partOfSpeech).filter((other) => tokenizer.wordToId(other) !== tokenizer.special.unkId),
  };
}
