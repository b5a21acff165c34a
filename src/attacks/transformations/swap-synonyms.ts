import type { Transformation } from "../protocol.js";
import type { SynonymDictionary } from "../resources.js";
import { replaceWords } from "./replace-words.js";
import { tagPositions } from "./swap-neighbors.js";

/** Replaces a word by the lemmas of its WordNet synsets, of the same part of speech or of any. */
export function swapSynonyms(
  dictionary: SynonymDictionary,
  options: { readonly samePartOfSpeech?: boolean } = {},
): Transformation {
  const { samePartOfSpeech = false } = options;
  return {
    name: samePartOfSpeech ? "WordNet synonyms of the same part of speech" : "WordNet synonyms",
    kind: "swap",
    *apply(text, positions) {
      const tags = samePartOfSpeech ? yield* tagPositions(text, positions) : [];
      return replaceWords(text, positions, (word, i) => dictionary.getLemmas(word, tags[i]));
    },
  };
}
