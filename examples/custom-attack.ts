/**
 * Composes an attack from exported parts, attacks a function with it, and writes the report.
 *
 *     npx tsx examples/custom-attack.ts reviews.csv
 */
import { type AttackReport, attack } from "temper-nlp";
import {
  changeCharacters,
  defineAttack,
  keepStopWords,
  maxWordsChanged,
  noRepeat,
  type PredictProbabilities,
  rankWordsAndReplace,
  untargeted,
} from "temper-nlp/attacks";
import { z } from "zod";

const typos = defineAttack({
  name: "typos",
  summary: "swapped letters in a few important words",
  paper: "an example",
  options: z.strictObject({ maxWords: z.int().min(1).default(2) }),
  resources: [],
  build: ({ maxWords }) => ({
    goal: untargeted,
    transformations: [changeCharacters("swap", { candidates: "all", innerOnly: false })],
    constraints: [noRepeat, keepStopWords(), maxWordsChanged({ count: maxWords })],
    search: rankWordsAndReplace({ by: "delete" }),
  }),
});

/** A classifier that counts the word "good": any function from texts to probabilities will do. */
const countGood: PredictProbabilities = (texts) =>
  texts.map((text) => (/\bgood\b/.test(String(text)) ? [0.1, 0.9] : [0.8, 0.2]));

/** Attacks the texts of a CSV file. OUT/report.json and OUT/texts.csv have the results. */
export function attackFunction(data: string, out: string): Promise<AttackReport> {
  const columns = { textColumn: ["text"], labelColumn: "label" };
  return attack({
    model: countGood,
    attacks: [typos({ maxWords: 1 })],
    data,
    ...columns,
    out,
    logToCsv: `${out}/texts.csv`,
  });
}

if (process.argv[1] === import.meta.filename)
  console.log((await attackFunction(process.argv[2] ?? "reviews.csv", "attacks")).attacks.typos);
