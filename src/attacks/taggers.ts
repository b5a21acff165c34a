import { type PartOfSpeech, tagPartsOfSpeech, tagUniversal, type UniversalTag } from "../text/part-of-speech.js";
import { computeOnce, type Resource } from "./requests.js";

/** Lists of words to one tag per word. */
type Tagger<Tag> = Resource<readonly string[], readonly Tag[]>;

/** Lists of words whose tags are kept. */
const maxKept = 100_000;

function createTagger<Tag>(name: string, tag: (words: readonly string[]) => Tag[]): Tagger<Tag> {
  const compute = computeOnce(
    (words: readonly string[]) => words.join("\0"),
    (lists) => lists.map(tag),
    maxKept,
  );
  return { name, kind: "tagger", compute };
}

/** The universal tags of words in context. */
export const universalTagger: Tagger<UniversalTag> = createTagger("universal tags", tagUniversal);

/** The parts of speech that have synonyms, of words in context. */
export const synonymTagger: Tagger<PartOfSpeech> = createTagger("parts of speech", tagPartsOfSpeech);
