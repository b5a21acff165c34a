import { splitWords } from "./words.js";

/** Frequent English words that hardly occur in texts of other languages: a fifth of an English text. */
const englishWords = new Set("the of and to that it for with this not but are you from have has they".split(" "));

/** The fraction of these words in English texts is larger. */
const minFraction = 0.06;

/** Words that are read. More would not change the answer. */
const maxWords = 5000;

/** Fewer words say too little. */
const minWords = 100;

/** Returns true if texts look English, by their fraction of frequent English words. Few words are taken for English. */
export function looksEnglish(texts: Iterable<string>): boolean {
  let [words, found] = [0, 0];
  for (const text of texts) {
    for (const word of splitWords(text.toLowerCase())) {
      if (!/\p{L}/u.test(word)) continue;
      words++;
      if (englishWords.has(word)) found++;
    }
    if (words >= maxWords) break;
  }
  return words < minWords || found / words >= minFraction;
}
