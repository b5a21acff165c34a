import { tagUniversal, type UniversalTag } from "../../text/part-of-speech.js";
import type { EditedText } from "../edited-text.js";
import type { Constraint } from "../recipe.js";

/** Words before and after the word that the tagger reads. */
const context = { before: 4, after: 3 };

interface PartOfSpeechOptions {
  readonly allowsNounVerb: boolean;
  /** TextAttack reads the tag of the first occurrence of the word in the context. */
  readonly readsFirst?: boolean;
}

/**
 * A substitute has the part of speech of the word in the context of the original text. Nouns and
 * verbs may replace each other if `allowsNounVerb`.
 */
export function samePartOfSpeech({ allowsNounVerb, readsFirst = false }: PartOfSpeechOptions): Constraint {
  const known = new Map<string, UniversalTag>();
  const tag = (original: EditedText, origin: number, word: string): UniversalTag => {
    const start = Math.max(0, origin - context.before);
    const words = original.words.slice(start, origin + 1 + context.after).with(origin - start, word);
    const index = readsFirst ? words.indexOf(word) : origin - start;
    const key = `${index} ${words.join(" ")}`;
    const found = known.get(key) ?? tagUniversal(words)[index]!;
    if (known.size > 100_000) known.clear();
    known.set(key, found);
    return found;
  };
  return {
    name: allowsNounVerb ? "same part of speech (nouns and verbs are alike)" : "same part of speech",
    allows(candidate) {
      const { edit, original, origin } = candidate;
      if (edit?.kind !== "replace" || origin < 0) return true;
      const tags = [original.getWord(origin), edit.word].map((word) => tag(original, origin, word));
      if (tags[0] === tags[1]) return true;
      return allowsNounVerb && tags.every((each) => each === "NOUN" || each === "VERB");
    },
  };
}
