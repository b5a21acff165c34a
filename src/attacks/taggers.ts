import { type PartOfSpeech, tagPartsOfSpeech, tagUniversal, type UniversalTag } from "../text/part-of-speech.js";
import type { Resource } from "./requests.js";

/** Lists of words to one tag per word. */
type Tagger<Tag> = Resource<readonly string[], readonly Tag[]>;

/** Lists of words whose tags are kept. */
const maxCached = 100_000;

/** Every distinct list of words is tagged once. */
function createTagger<Tag>(name: string, tag: (words: readonly string[]) => Tag[]): Tagger<Tag> {
  const cache = new Map<string, readonly Tag[]>();
  return {
    name,
    kind: "tagger",
    compute: async (lists) =>
      lists.map((words) => {
        const key = words.join("\0");
        const tags = cache.get(key) ?? tag(words);
        if (cache.size > maxCached) cache.clear();
        cache.set(key, tags);
        return tags;
      }),
  };
}

/** The universal tags of words in context. */
export const universalTagger: Tagger<UniversalTag> = createTagger("universal tags", tagUniversal);

/** The parts of speech that have synonyms, of words in context. */
export const synonymTagger: Tagger<PartOfSpeech> = createTagger("parts of speech", tagPartsOfSpeech);
