import type { AttackRequest } from "../actions/attack/attack-request.js";
import { createTextAttacker, type WatchedResult } from "../actions/attack/attack-text.js";
import { formatCount, formatPercent } from "../base/format.js";
import { outcomeTitles } from "../evaluation/outcomes.js";
import { getColors, type Io, write } from "./io.js";
import { formatTable } from "./output.js";

export async function attackInput(
  io: Io,
  request: AttackRequest,
  texts: readonly string[],
  label: string | undefined,
): Promise<void> {
  const attacker = await createTextAttacker(request);
  try {
    for (const done of await attacker.attack(texts, { label })) await write(io.stdout, formatTextAttack(io, done));
  } finally {
    attacker.close();
  }
}

function formatTextAttack(io: Io, { attack, labels, result, steps }: WatchedResult): string {
  const { label, before, after, outcome, queries, edits, texts, finalTexts } = result;
  const { red, green } = getColors(io.stdout);
  const describe = (probabilities: readonly number[]): string => {
    const best = probabilities.indexOf(Math.max(...probabilities));
    return `${labels[best]} ${formatPercent(probabilities[best]!)}`;
  };
  const changes = edits.map(
    ({ from, to }) => `${from === "" ? "" : red(`-${from}`)} ${to === "" ? "" : green(`+${to}`)}`,
  );
  const rows = [
    ["attack", attack],
    ["true label", labels[label] ?? String(label)],
    ["original", `${texts.join(" | ")}  (${describe(before)})`],
    ...steps
      .slice(1)
      .map((step, i) => [
        `step ${i + 1}`,
        `${formatCount(step.texts)} texts; best ${formatPercent(step.probability)}: ${step.best.join(" | ")}`,
      ]),
    ["final", `${finalTexts.join(" | ")}  (${describe(after)})`],
    ["changes", changes.length > 0 ? changes.join(", ") : "none"],
    ["result", `${outcomeTitles[outcome]} after ${formatCount(queries)} queries`],
  ];
  return `${formatTable(io.stdout, rows)}\n\n`;
}
