// Answers the questions of textattack_peer.py about Temper's tables: one JSON line per question, one per answer.
//   node tools/parity/resources.mjs TABLE.json
import { createInterface } from "node:readline";
import { confusables } from "../../dist/attacks/transformations/character-tables.js";
import { loadSubstitutions } from "../../dist/text/load-substitutions.js";
import { tagPartsOfSpeech, tagUniversal } from "../../dist/text/part-of-speech.js";
import { nltkStopWords } from "../../dist/text/stop-words.js";
import { loadWordNetLemmas } from "../../dist/text/wordnet-lemmas.js";

const neighbors = await loadSubstitutions(process.argv[2]);
const wordnet = loadWordNetLemmas();

function answer(question) {
  if ("stopWords" in question) return [...nltkStopWords];
  if ("confusables" in question) return [...confusables];
  if ("tags" in question) return tagUniversal(question.tags);
  if ("partsOfSpeech" in question) return tagPartsOfSpeech(question.partsOfSpeech);
  if ("neighbors" in question) return neighbors.getSubstitutes(question.neighbors);
  return wordnet.getLemmas(question.lemmas, question.partOfSpeech);
}

for await (const line of createInterface({ input: process.stdin }))
  process.stdout.write(`${JSON.stringify(answer(JSON.parse(line)))}\n`);
