// Composes an attack from exported parts, attacks a function with it, and writes attacks/report.html:
//
//     npx tsx examples/custom-attack.ts reviews.csv
import { attack, report, z } from "temper-nlp";
import { changeCharacters, defineAttack, maxWordsChanged, rankWordsAndReplace, untargeted } from "temper-nlp/attacks";

const typos = defineAttack({
  name: "typos",
  summary: "swapped letters in a few important words",
  paper: "an example",
  options: z.strictObject({ maxWords: z.int().min(1).default(2) }),
  resources: [],
  build: ({ maxWords }) => ({
    goal: untargeted,
    transformations: [changeCharacters("swap", { candidates: "all", innerOnly: false })],
    constraints: [maxWordsChanged({ count: maxWords })],
    search: rankWordsAndReplace({ by: "delete" }),
  }),
});
const isGood = (texts: readonly unknown[]) => texts.map((text) => (/good/.test(`${text}`) ? [0.1, 0.9] : [0.8, 0.2]));
const data = { path: process.argv[2]!, textColumn: ["text"], labelColumn: "label" };
await attack({ model: isGood, attacks: [typos({ maxWords: 1 })], data, out: "attacks" });
await report({ runs: ["attacks"], out: "attacks/report.html" });
