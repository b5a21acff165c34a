import type { EditedText } from "../edited-text.js";
import type { Transformation } from "../protocol.js";
import { replaceWords } from "./replace-words.js";

const endings: Readonly<Record<string, readonly [expansion: string, words: string]>> = {
  "n't": ["not", "are could did does do had has have is might must need ought should was were would"],
  "'ve": ["have", "could might must should would where who I i they we you"],
  "'d": ["would", "he I i it she that there they we you"],
  "'ll": ["will", "he how I i it she they we who you"],
  "'m": ["am", "I i"],
  "'re": ["are", "they we what you"],
  "'s": ["is", "he how it she that there what when where who why"],
};

/** Contractions and their expansions, in exact letter case (CheckList). */
export const contractions: ReadonlyMap<string, string> = new Map([
  ...Object.entries(endings).flatMap(([ending, [expansion, words]]) =>
    words.split(" ").map((word) => [`${word}${ending}`, `${word} ${expansion}`] as const),
  ),
  ...([
    ["shan't", "shall not"],
    ["won't", "will not"],
    ["can't", "cannot"],
    ["ain't", "isn't"],
    ["can't've", "cannot have"],
    ["how'd", "how did"],
    ["where'd", "where did"],
    ["he'd've", "he would have"],
    ["you'd've", "you would have"],
    ["ma'am", "madam"],
    ["how'd'y", "how do you"],
  ] as const),
]);

/** Expands contractions: don't -> do not. */
export const expandContractions: Transformation = {
  name: "expanded contractions",
  kind: "swap",
  apply: (text, positions) => replaceWords(text, positions, (word) => [contractions.get(word) ?? []].flat()),
};

const byExpansion = new Map([...contractions].map(([short, long]) => [long, short]));

/** Contracts two neighboring words: do not -> don't. */
export const contractWords: Transformation = {
  name: "contractions",
  kind: "swap",
  apply: (text, positions) => positions.flatMap((position) => contract(text, position)),
};

function contract(text: EditedText, position: number): EditedText[] {
  const [first, second] = [text.slots[position]!, text.slots[position + 1]];
  if (!second || second.field !== first.field) return [];
  const word = byExpansion.get(text.texts[first.field]!.slice(first.start, second.end));
  return word === undefined ? [] : [text.apply({ kind: "merge", position, word })];
}
