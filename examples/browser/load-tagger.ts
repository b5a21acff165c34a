import type { WinkMethods } from "wink-nlp";

/** Only WordNet's substitutes depend on parts of speech, and the page has none of them. */
export function loadTagger(): WinkMethods {
  throw new Error("This page has no tagger. Use a table of substitutes without parts of speech.");
}
