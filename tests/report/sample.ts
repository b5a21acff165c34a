import { join } from "node:path";
import type { AttackOutcome, AttackResult } from "../../src/attacks/result.js";
import { attackResult, writeRun } from "./run-folder.js";

export const hostile = "<script>alert(1)</script> \"><img src=x onerror=alert(2)> '; &amp; </style>";

const texts = [
  "Dear friend, you have won a free holiday and a large amount of money, reply now to claim the prize before it is gone",
  "Lower your mortgage payments today! Our experts find the best rate for your home in minutes, with no obligation at all",
  "The meeting moved to Thursday, can you bring the numbers from last week and the list of people who asked for a copy",
  `A word for those who break pages: ${hostile} and the rest of it is harmless`,
  `A long one ${"that goes on and on ".repeat(30)}until it ends with an offer you cannot refuse`,
];
const substitutes: Readonly<Record<string, string>> = {
  free: "complimentary",
  money: "cash",
  prize: "award",
  payments: "remittances",
  best: "finest",
  meeting: "assembly",
  word: "news",
  offer: "proposal",
};

function createResult(index: number, outcome: AttackOutcome): AttackResult {
  const text = texts[index % texts.length]!;
  const changes = Object.fromEntries(
    text
      .split(/\s+/)
      .flatMap((word, i) => (outcome !== "skipped" && substitutes[word] ? [[i, substitutes[word]]] : [])),
  ) as Record<number, string>;
  return attackResult(
    `mail-${String(index).padStart(3, "0")}`,
    text,
    outcome,
    changes,
    text.startsWith("The meeting") ? 0 : 1,
  );
}

/** Outcomes of a model that stays correct on `robust` of ten texts. */
export function createJournal(robust: number, size = 60): AttackResult[] {
  return Array.from({ length: size }, (_, i) =>
    createResult(i, i % 20 === 19 ? "skipped" : i % 10 < robust ? "failed" : "success"),
  );
}

export const svg =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 200" width="400" height="200"><script>document.title = "owned"</script><rect width="400" height="200" fill="#3b82d0"/><text x="20" y="40" fill="white">distance</text></svg>';

/** Writes two attacked runs of one task, with a figure: everything that a report can contain. */
export async function writeSample(folder: string): Promise<string[]> {
  return [
    await writeRun(join(folder, "spam-standard-seed0"), {
      accuracy: 0.95,
      attacks: { pwws: createJournal(6), genetic: createJournal(5) },
    }),
    await writeRun(join(folder, "spam-ascc-seed0"), {
      ...{
        methods: ["ascc:beta=4,innerSteps=3"],
        accuracy: 0.93,
        attacks: { pwws: createJournal(9), genetic: createJournal(8) },
      },
      figures: { distance: { svg, title: "Distance", summary: `ascc ends at a distance of 0.12 ${hostile}` } },
    }),
  ];
}
