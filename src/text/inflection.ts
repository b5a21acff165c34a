import { createRequire } from "node:module";
import { irregularAdjectives, irregularNouns, irregularVerbs } from "./irregular-forms.js";
import type { PartOfSpeech } from "./part-of-speech.js";

/** How a word is inflected; "base" for the form that stands in a dictionary. */
export type InflectionForm =
  | "base"
  | "plural"
  | "third"
  | "past"
  | "participle"
  | "gerund"
  | "comparative"
  | "superlative";

interface Lemmatizer {
  noun(word: string): string;
  verb(word: string): string;
  adjective(word: string): string;
}

let lemmatizer: Lemmatizer | undefined;

/** Loaded on first use: it brings a list of 85,000 words with it. */
function loadLemmatizer(): Lemmatizer {
  lemmatizer ??= createRequire(import.meta.url)("wink-lemmatizer") as Lemmatizer;
  return lemmatizer;
}

/** Irregular forms -> what they are of; a form that is also a base ("found", "saw") is read as the inflected one. */
const irregular = new Map<string, { lemma: string; form: InflectionForm }>();
for (const [lemma, { past, participle }] of irregularVerbs) {
  if (past !== lemma) irregular.set(`verb ${past}`, { lemma, form: "past" });
  if (participle !== lemma && participle !== past) irregular.set(`verb ${participle}`, { lemma, form: "participle" });
}
for (const [lemma, plural] of irregularNouns)
  if (plural !== lemma) irregular.set(`noun ${plural}`, { lemma, form: "plural" });
for (const [lemma, { comparative, superlative }] of irregularAdjectives) {
  for (const [word, form] of [
    [comparative, "comparative"],
    [superlative, "superlative"],
  ] as const) {
    // The first of two bases wins: "better" is of "good", not of "well".
    if (!irregular.has(`adjective ${word}`)) irregular.set(`adjective ${word}`, { lemma, form });
  }
}

/** The dictionary form of a lower-case word, and which inflection of it the word is. */
export function analyzeInflection(
  word: string,
  partOfSpeech: PartOfSpeech,
): { readonly lemma: string; readonly form: InflectionForm } {
  const known = irregular.get(`${partOfSpeech} ${word}`);
  if (known) return known;
  if (partOfSpeech === "adverb" || partOfSpeech === "other") return { lemma: word, form: "base" };
  const lemma = loadLemmatizer()[partOfSpeech](word);
  if (lemma === word) return { lemma, form: "base" };
  if (partOfSpeech === "noun") return { lemma, form: "plural" };
  if (partOfSpeech === "adjective") return { lemma, form: word.endsWith("st") ? "superlative" : "comparative" };
  return { lemma, form: word.endsWith("ing") ? "gerund" : word.endsWith("s") ? "third" : "past" };
}

/** The wanted form of a dictionary form; undefined where it takes more than one word ("more beautiful"). */
export function inflect(lemma: string, form: InflectionForm): string | undefined {
  switch (form) {
    case "base":
      return lemma;
    case "plural":
      return irregularNouns.get(lemma) ?? addS(lemma);
    case "third":
      return lemma === "have" ? "has" : addS(lemma);
    case "past":
    case "participle":
      return irregularVerbs.get(lemma)?.[form] ?? addSuffix(lemma, "ed");
    case "gerund":
      return lemma.endsWith("ie") ? `${lemma.slice(0, -2)}ying` : addSuffix(lemma, "ing");
    case "comparative":
    case "superlative":
      return (
        irregularAdjectives.get(lemma)?.[form] ??
        (canTakeSuffix(lemma) ? addSuffix(lemma, form === "comparative" ? "er" : "est") : undefined)
      );
  }
}

/** Plural nouns and the third person follow one rule. */
function addS(word: string): string {
  if (/[^aeiou]y$/.test(word)) return `${word.slice(0, -1)}ies`;
  return /(s|x|z|ch|sh)$/.test(word) || /^(do|go|undergo|outdo|undo)$/.test(word) ? `${word}es` : `${word}s`;
}

/** -ed, -ing, -er, -est: a silent e goes, y becomes i, and a last consonant after one short stressed vowel is doubled. */
function addSuffix(word: string, suffix: "ed" | "ing" | "er" | "est"): string {
  if (suffix === "ing" && /.[^eoy]e$/.test(word)) return word.slice(0, -1) + suffix;
  if (suffix !== "ing" && word.endsWith("e")) return word + suffix.slice(1);
  if (suffix !== "ing" && /[^aeiou]y$/.test(word)) return `${word.slice(0, -1)}i${suffix}`;
  if (/c$/.test(word)) return `${word}k${suffix}`;
  return shouldDoubleConsonant(word) ? word + word.at(-1) + suffix : word + suffix;
}

/** One-syllable words and the two-syllable ones stressed at the end. Unstressed endings (-er, -en, -it, …) never double. */
function shouldDoubleConsonant(word: string): boolean {
  if (!/[^aeiou][aeiou][bdfgklmnprtvz]$/.test(word) && !/^[aeiou][bdgmnpt]$|qui[tpz]$/.test(word)) return false;
  const syllables = word.match(/[aeiouy]+/g)?.length ?? 0;
  return (
    syllables === 1 ||
    /(ad|com|con|oc|re|de|un|o|be|for|per|trans|ab|im|ex|dis|pro)(mit|cur|fer|pel|fit|get|bid|gin|set|rol|hor|tol|wit|bar|cat)$/.test(
      word,
    )
  );
}

/** Whether -er and -est are possible: one syllable, or two that end in y. */
function canTakeSuffix(adjective: string): boolean {
  const syllables = adjective.replace(/e$/, "").match(/[aeiouy]+/g)?.length ?? 0;
  return syllables <= 1 || (syllables === 2 && adjective.endsWith("y"));
}
