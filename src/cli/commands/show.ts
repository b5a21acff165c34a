import { dirname } from "node:path";
import { type Command, Option } from "@commander-js/extra-typings";
import { z } from "zod";
import { type JournalHeader, readJournal } from "../../attacks/journal.js";
import type { AttackOutcome, AttackResult } from "../../attacks/result.js";
import { exists } from "../../base/files.js";
import { formatCount, formatPercent } from "../../base/format.js";
import { splitChangedText } from "../../evaluation/changed-text.js";
import { foldText, splitRead } from "../../evaluation/folded-text.js";
import { outcomeTitles } from "../../evaluation/outcomes.js";
import { expandJournals } from "../../runs/expand-journals.js";
import { RunFolder } from "../../runs/run-folder.js";
import { tokenizations } from "../../text/encoding.js";
import { measureReadTexts } from "../../text/measure-read-texts.js";
import type { TextPiece } from "../../text/text-pieces.js";
import { loadTokenizer } from "../../text/tokenizer.js";
import { getColors, type Io, write } from "../io.js";
import { createIntegerParser } from "../options.js";
import { formatPath, formatText } from "../output.js";

export const note =
  "Without colors, a change is [-before-]{+after+}. What the model does not read, because it is behind --max-length, " +
  "is dim, and without colors it stands in ⟨⟩. Long texts are folded around their changes.";
export const examples = [
  "temper show runs/sst2-rose-seed0",
  "temper show runs/sst2-rose-seed0/attacks/pwws.jsonl --outcome robust --num-examples 3",
  "temper show runs/harden --full",
];

const outcomes: Readonly<Record<string, AttackOutcome | null>> = {
  fooled: "success",
  robust: "failed",
  misclassified: "skipped",
  all: null,
};

export function define(command: Command, io: Io): void {
  command
    .argument(
      "<run>",
      "a run or a folder of runs, for the journals of all attacks, or one journal: RUN/attacks/NAME.jsonl",
    )
    .addOption(
      new Option("--outcome <name>", "which examples to print").choices(Object.keys(outcomes)).default("fooled"),
    )
    .addOption(
      new Option("--num-examples <count>", "maximum number of examples to print")
        .argParser(createIntegerParser(1))
        .default(10),
    )
    .option("--full", "print complete texts")
    .action(async (path, { outcome, numExamples, full: isFull = false }) => {
      const journals = await expandJournals(path);
      for (const journal of journals) {
        if (journals.length > 1) await write(io.stdout, `${formatPath(journal)}\n\n`);
        await showJournal(io, journal, { outcome, numExamples, isFull });
      }
    });
}

interface ShowOptions {
  readonly outcome: string;
  readonly numExamples: number;
  readonly isFull: boolean;
}

async function showJournal(io: Io, path: string, { outcome, numExamples, isFull }: ShowOptions): Promise<void> {
  const run = await RunFolder.containing(dirname(dirname(path)));
  const labels = (await run?.labels()) ?? [];
  const wanted = outcomes[outcome]!;
  let reader: TextReader | null | undefined;
  let count = 0;
  for await (const { header, result } of readJournal(path)) {
    if (wanted !== null && result.outcome !== wanted) continue;
    reader ??= await openReader(run, header);
    if (count++ < numExamples) await write(io.stdout, formatResult(io, result, { labels, reader, isFull }));
  }
  const hidden = count - Math.min(count, numExamples);
  const more = hidden > 0 ? ` ${formatCount(hidden)} more: pass --num-examples ${count}.` : "";
  const kind = wanted === null ? "" : ` (${outcomeTitles[wanted]})`;
  await write(io.stdout, `${formatCount(count)} ${count === 1 ? "example" : "examples"}${kind}.${more}\n`);
}

/** Returns the number of characters of each field that the model reads. */
type TextReader = (texts: readonly string[]) => number[];

const readerSettingsSchema = z.object({ tokenization: z.enum(tokenizations), maxLength: z.number() });

/** Reads texts as the attacked model of a run did. Null if the journal or the run does not say how. */
async function openReader(run: RunFolder | null, { settings }: JournalHeader): Promise<TextReader | null> {
  const known = readerSettingsSchema.safeParse(settings);
  // The tokens of a canonical form say nothing about the characters of the text.
  if (!known.success || run?.config.normalize !== "none" || !(await exists(run.path("model")))) return null;
  const { tokenization, maxLength } = known.data;
  const tokenizer = await loadTokenizer(run.path("model"), tokenization);
  return (texts) => measureReadTexts(tokenizer, texts, { tokenization, maxLength });
}

function formatResult(
  io: Io,
  result: AttackResult,
  { labels, reader, isFull }: Readonly<{ labels: readonly string[]; reader: TextReader | null; isFull: boolean }>,
): string {
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
  const numRead = reader?.(result.finalTexts) ?? [];
  const texts = fields.map((pieces, field) => {
    const isChanged = ({ word }: TextPiece): boolean => word !== null && changed.has(word);
    const render = (piece: TextPiece): string =>
      isChanged(piece) ? mark(getOriginal(piece.word!) ?? "", piece.text) : piece.text;
    const { read, unread } = splitRead(pieces, numRead[field] ?? Number.POSITIVE_INFINITY);
    const [first, last] = [read, unread].map((part) =>
      (isFull ? part.map(render) : foldText(part, isChanged, render)).join(""),
    ) as [string, string];
    return first + (last.trim() === "" ? last : isColored ? dim(last) : `⟨${last}⟩`);
  });
  const gold = labels[result.label] ?? `label ${result.label}`;
  return (
    `${bold(result.id)}  ${outcomeTitles[result.outcome]}: ${describe(result.before)} → ${describe(result.after)} ` +
    `${dim(`(label ${gold}; ${changes})`)}\n${texts.map((text) => `${formatText(io.stdout, `  ${text}`)}\n`).join("")}\n`
  );
}
