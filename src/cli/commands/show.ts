import { dirname } from "node:path";
import { type Command, Option } from "@commander-js/extra-typings";
import { readJournal } from "../../attacks/journal.js";
import type { AttackOutcome, AttackResult } from "../../attacks/result.js";
import { formatCount, formatPercent } from "../../base/format.js";
import { splitChangedText } from "../../evaluation/changed-text.js";
import { outcomeTitles } from "../../evaluation/outcomes.js";
import { expandJournals } from "../../runs/expand-journals.js";
import { RunFolder } from "../../runs/run-folder.js";
import { getColors, type Io, write } from "../io.js";
import { createIntegerParser } from "../options.js";
import { formatPath } from "../output.js";

export const note = "Without colors, a change is [-before-]{+after+}.";
export const examples = [
  "temper show runs/sst2-rose-seed0",
  "temper show runs/sst2-rose-seed0/attacks/pwws.jsonl --outcome robust --num-examples 3",
];

const outcomes: Readonly<Record<string, AttackOutcome | null>> = {
  fooled: "success",
  robust: "failed",
  misclassified: "skipped",
  all: null,
};

export function define(command: Command, io: Io): void {
  command
    .argument("<run>", "a run, for the journals of all its attacks, or one journal: RUN/attacks/NAME.jsonl")
    .addOption(
      new Option("--outcome <name>", "which examples to print").choices(Object.keys(outcomes)).default("fooled"),
    )
    .addOption(
      new Option("--num-examples <count>", "maximum number of examples to print")
        .argParser(createIntegerParser(1))
        .default(10),
    )
    .action(async (path, { outcome, numExamples }) => {
      const journals = await expandJournals(path);
      for (const journal of journals) {
        if (journals.length > 1) await write(io.stdout, `${formatPath(journal)}\n\n`);
        await showJournal(io, journal, outcome, numExamples);
      }
    });
}

async function showJournal(io: Io, path: string, outcome: string, numExamples: number): Promise<void> {
  const run = await RunFolder.containing(dirname(dirname(path)));
  const labels = (await run?.labels()) ?? [];
  const wanted = outcomes[outcome]!;
  let count = 0;
  for await (const { result } of readJournal(path)) {
    if (wanted !== null && result.outcome !== wanted) continue;
    if (count++ < numExamples) await write(io.stdout, formatResult(io, result, labels));
  }
  const hidden = count - Math.min(count, numExamples);
  const more = hidden > 0 ? ` ${formatCount(hidden)} more: pass --num-examples ${count}.` : "";
  const kind = wanted === null ? "" : ` (${outcomeTitles[wanted]})`;
  await write(io.stdout, `${formatCount(count)} ${count === 1 ? "example" : "examples"}${kind}.${more}\n`);
}

/** One example: what the model said before and after, and the text with its changes. */
function formatResult(io: Io, result: AttackResult, labels: readonly string[]): string {
  const { bold, dim, red, green } = getColors(io.stdout);
  const describe = (probabilities: readonly number[]): string => {
    const best = probabilities.indexOf(Math.max(...probabilities));
    return `${labels[best] ?? `label ${best}`} ${formatPercent(probabilities[best]!)}`;
  };
  const changes = `${result.edits.length} of ${result.words.length} words, ${formatCount(result.queries)} queries`;
  const isColored = io.stdout.isTTY === true && red("x") !== "x";
  const mark = (from: string, to: string): string => {
    if (isColored) return [from && red(from), green(to)].filter(Boolean).join(" ");
    return `${from && `[-${from}-]`}{+${to}+}`;
  };
  const { fields, changed, getOriginal } = splitChangedText(result);
  const texts = fields.map((pieces) =>
    pieces.map(({ word, text: piece }) =>
      word !== null && changed.has(word) ? mark(getOriginal(word) ?? "", piece) : piece,
    ),
  );
  const gold = labels[result.label] ?? `label ${result.label}`;
  return (
    `${bold(result.id)}  ${outcomeTitles[result.outcome]}: ${describe(result.before)} → ${describe(result.after)} ` +
    `${dim(`(label ${gold}; ${changes})`)}\n${texts.map((pieces) => `  ${pieces.join("")}\n`).join("")}\n`
  );
}
