import type { EditedText } from "../edited-text.js";
import type { Constraint } from "../protocol.js";
import { request } from "../requests.js";
import { universalTagger } from "../taggers.js";

/** Words before and after the word that the tagger reads. */
const context = { before: 4, after: 3 };

/**
 * A substitute has the part of speech of the word in the context of the original text. Nouns and
 * verbs may replace each other if `allowsNounVerb`.
 */
export function samePartOfSpeech({ allowsNounVerb }: { readonly allowsNounVerb: boolean }): Constraint {
  return {
    name: allowsNounVerb ? "same part of speech (nouns and verbs are alike)" : "same part of speech",
    *filter(candidates) {
      const windows = candidates.map(({ edit, original, origin }) => {
        if (edit?.kind !== "replace" || origin < 0) return [];
        return [original.getWord(origin), edit.word].map((word) => selectContext(original, origin, word));
      });
      const answers = yield* request(
        universalTagger,
        windows.flat().map(({ words }) => words),
      );
      let next = 0;
      return candidates.filter((_, i) => {
        const [first, second] = windows[i]!.map(({ index }) => answers[next++]![index]!);
        if (first === second) return true;
        return allowsNounVerb && [first, second].every((tag) => tag === "NOUN" || tag === "VERB");
      });
    },
  };
}

/** The words around an original word, with another word in its place. */
function selectContext(original: EditedText, origin: number, word: string): { words: string[]; index: number } {
  const start = Math.max(0, origin - context.before);
  const words = original.words.slice(start, origin + 1 + context.after).with(origin - start, word);
  return { words, index: origin - start };
}
