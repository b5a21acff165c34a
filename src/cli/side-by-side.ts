import type { AttackResult } from "../attacks/result.js";
import { formatPercent } from "../base/format.js";
import { getColors, type OutputStream } from "./io.js";

/** Text with color codes, and its length without them. */
interface Cell {
  readonly text: string;
  readonly length: number;
}

const maxWidth = 120;
const separator = " | ";

/**
 * Draws an email that was attacked on several models: the original, then for each model the verdict
 * and the final text, in columns. Changed words are marked, also without colors; in the original,
 * those that the first model's attack changed.
 */
export function formatSideBySide(
  out: OutputStream,
  labels: readonly string[],
  results: Readonly<Record<string, AttackResult>>,
): string {
  const { bold, dim, red, green, underline } = getColors(out);
  const isColored = bold("x") !== "x";
  const mark = (word: string): Cell => {
    const text = isColored ? bold(underline(word)) : `*${word}*`;
    return { text, length: isColored ? word.length : text.length };
  };
  const formatVerdict = ({ label, before, after, outcome }: AttackResult): Cell => {
    const describe = (row: readonly number[]): string => formatPercent(row[label]!);
    const verdict = outcome === "success" ? "fooled" : "robust";
    const text = `${labels[label]} ${describe(before)} -> ${describe(after)}: ${verdict}`;
    return { text: outcome === "success" ? red(text) : green(text), length: text.length };
  };
  const all = Object.entries(results);
  const width = Math.min(out.columns ?? 100, maxWidth);
  const columnWidth = Math.floor((width - separator.length * (all.length - 1)) / all.length);
  const listPositions = ({ edits }: AttackResult): Set<number> => new Set(edits.map(({ position }) => position));
  const blocks = all.map(([name, result]) => [
    { text: bold(name), length: name.length },
    formatVerdict(result),
    ...wrap(result.finalWords, listPositions(result), columnWidth, mark),
  ]);
  const height = Math.max(...blocks.map((block) => block.length));
  const rows = Array.from({ length: height }, (_, i) =>
    blocks
      .map((block) => block[i] ?? { text: "", length: 0 })
      .map(({ text, length }) => text + " ".repeat(Math.max(0, columnWidth - length)))
      .join(separator)
      .trimEnd(),
  );
  const [, first] = all[0]!;
  const before = wrap(first.words, listPositions(first), width, mark).map(({ text }) => text);
  return `${[dim("original"), ...before, "", ...rows].join("\n")}\n`;
}

function wrap(
  words: readonly string[],
  marked: ReadonlySet<number>,
  maxLength: number,
  mark: (word: string) => Cell,
): Cell[] {
  const chunks: Cell[] = [];
  words.forEach((word, i) => {
    const shown = marked.has(i) ? mark(word) : { text: word, length: word.length };
    const last = chunks.at(-1);
    const isAttached = /^[,.;:!?)\]}%]/.test(word) || /[([{$]$/.test(words[i - 1] ?? "");
    if (last && isAttached) chunks[chunks.length - 1] = join(last, shown);
    else chunks.push(shown);
  });
  const lines: Cell[] = [];
  for (const chunk of chunks) {
    const line = lines.at(-1);
    if (line && line.length + 1 + chunk.length <= maxLength) lines[lines.length - 1] = join(line, chunk, " ");
    else lines.push(chunk);
  }
  return lines;
}

function join(first: Cell, second: Cell, between = ""): Cell {
  return { text: first.text + between + second.text, length: first.length + between.length + second.length };
}
