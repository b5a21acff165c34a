import type { Transformation } from "../recipe.js";
import type { SynonymDictionary } from "../resources.js";
import { createTagger } from "./swap-neighbors.js";

/** Replaces a word by the lemmas of its WordNet synsets, of the same part of speech or of any. */
export function swapSynonyms(
  dictionary: SynonymDictionary,
  options: { readonly samePartOfSpeech?: boolean } = {},
): Transformation {
  const { samePartOfSpeech = false } = options;
  const tag = createTagger(samePartOfSpeech);
  return {
    name: samePartOfSpeech ? "WordNet synonyms of the same part of speech" : "WordNet synonyms",
    kind: "swap",
    apply: (text, positions) =>
      positions.flatMap((position) => {
        const word = text.getWord(position);
        const lemmas = dictionary.getLemmas(word, tag(text, position));
        return lemmas.map((lemma) => text.apply({ kind: "replace", position, word: lemma }));
      }),
  };
}
