import type { AttackRequest } from "../actions/attack/attack-request.js";
import { createTextAttacker, type TextAttacker, type WatchedResult } from "../actions/attack/attack-text.js";
import { formatCount, formatPercent } from "../base/format.js";
import { outcomeTitles } from "../evaluation/outcomes.js";
import { readLines } from "../text/read-inputs.js";
import { getColors, type Io, write } from "./io.js";
import { formatTable } from "./output.js";

/** Attacks the texts of a command line, or those that a user types. */
export async function attackTexts(
  io: Io,
  request: AttackRequest,
  { input, trueLabel, interactive }: { input?: string[]; trueLabel?: string; interactive?: boolean },
): Promise<void> {
  const attacker = await createTextAttacker(request);
  try {
    if (input) await attackAndPrint(io, attacker, input, trueLabel);
    if (interactive) await attackLines(io, attacker, trueLabel);
  } finally {
    attacker.close();
  }
}

/** Reads one text per line until the end of the input. */
async function attackLines(io: Io, attacker: TextAttacker, trueLabel: string | undefined): Promise<void> {
  await write(io.stdout, `Labels: ${attacker.labels.join(", ")}. Type a text, or end with Ctrl+D.\n`);
  for await (const { text } of readLines("-", io.stdin))
    if (text.trim() !== "") await attackAndPrint(io, attacker, [text], trueLabel);
}

async function attackAndPrint(
  io: Io,
  attacker: TextAttacker,
  texts: readonly string[],
  label: string | undefined,
): Promise<void> {
  for (const done of await attacker.attack(texts, { label })) await write(io.stdout, formatTextAttack(io, done));
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
