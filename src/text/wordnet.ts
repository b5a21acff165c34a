import { createHash } from "node:crypto";
import { getCachedBytes } from "../base/cache.js";
import { analyzeInflection, inflect } from "./inflection.js";
import { LineIndex } from "./line-index.js";
import type { PartOfSpeech } from "./part-of-speech.js";
import { matchCase, maxSubstitutes, type Substitutions } from "./substitutions.js";
import { readSynset, readWordNet, wordNetFiles, wordNetParts } from "./wordnet-files.js";
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

/** The digits of a part of speech in the file of sense counts. */
const senseDigits = { noun: "1", verb: "2", adjective: "35", adverb: "4" };

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
    const readings = (partOfSpeech ? [partOfSpeech] : wordNetParts).flatMap((part) => {
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
  const counts = parseSenseCounts(readWordNet("index.sense"));
  const lines = wordNetParts.flatMap((part) => {
    const data = readWordNet(`data.${wordNetFiles[part]}`);
    return readWordNet(`index.${wordNetFiles[part]}`)
      .split("\n")
      .flatMap((line) => {
        const lemma = line.slice(0, line.indexOf(" "));
        if (!plainWord.test(lemma)) return [];
        const fields = line.trimEnd().split(" ");
        // Fields: lemma, part of speech, number of senses, …, one byte offset per sense, most
        // frequent sense first.
        const offsets = fields.slice(-Number(fields[2]));
        const synonyms = new Set(
          offsets
            .flatMap((offset) => readSynset(data, Number(offset)))
            .filter((word) => word !== lemma && plainWord.test(word)),
        );
        const count = [...senseDigits[part]].reduce((sum, digit) => sum + (counts.get(lemma + digit) ?? 0), 0);
        return [[part, lemma, count, ...[...synonyms].slice(0, maxSynonyms)].join(" ")];
      });
  });
  return lines.join("\n");
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
