import type { PartOfSpeech } from "../../text/part-of-speech.js";
import type { EditedText } from "../edited-text.js";
import type { Transformation } from "../protocol.js";
import { type ResourceGenerator, request } from "../requests.js";
import type { NeighborTable } from "../resources.js";
import { synonymTagger } from "../taggers.js";
import { replaceWords } from "./replace-words.js";

/** Replaces a word by each of its nearest neighbors, in the letter case of the word. */
export function swapNeighbors(table: NeighborTable, maxCandidates: number): Transformation {
  return {
    name: `up to ${maxCandidates} neighbors of a word (${table.name})`,
    kind: "swap",
    *apply(text, positions) {
      const tags = table.usesPartOfSpeech ? yield* tagPositions(text, positions) : [];
      return replaceWords(text, positions, (word, i) => table.getSubstitutes(word, tags[i]).slice(0, maxCandidates));
    },
  };
}

/** The parts of speech of some words in the original text. */
export function* tagPositions(text: EditedText, positions: readonly number[]): ResourceGenerator<PartOfSpeech[]> {
  const [tags] = yield* request(synonymTagger, [text.original.words]);
  return positions.map((position) => tags![text.getOrigin(position)] ?? "other");
}
