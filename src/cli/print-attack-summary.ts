import type { AttackSummary } from "../evaluation/journal-summary.js";
import type { Interval } from "../evaluation/statistics.js";
import { describePower } from "../evaluation/statistics.js";
import { formatCount, formatDuration, formatNumber, formatPercent } from "../format.js";
import type { AttackSuiteResult } from "../runs/attack-suite.js";
import { getColors, type Io, write } from "./io.js";
import { formatTable } from "./output.js";

/** What attacks did to a model, for people: a column an attack. */
export async function printAttackSummary(
  io: Io,
  report: AttackSuiteResult,
  about: { task: string; split: string; model: string; out: string },
): Promise<void> {
  const { examples, clean, cleanInterval, space } = report;
  const right = Math.round(clean * examples);
  const head = [
    ["model", about.model],
    [
      "examples",
      `${formatCount(examples)} of ${about.task} ${about.split}, of which ${formatCount(right)} are right before any attack`,
    ],
    ["clean accuracy", `${formatPercent(clean)}  (95 %: ${formatConfidenceInterval(cleanInterval)})`],
    [
      "attack space",
      `${formatNumber(space.openWords, 3)} of ${formatNumber(space.words, 3)} words are open, ${formatNumber(space.substitutes, 3)} substitutes each: ${space.combinations} texts`,
    ],
    ["journals", about.out],
  ];
  await write(io.stdout, `${formatTable(io.stdout, head)}\n\n${formatAttackTable(io, report, right)}\n`);
  const notes = formatNotes(report);
  if (notes.length > 0) await write(io.stdout, `\n${notes.join("\n")}\n`);
  const colors = getColors(io.stdout);
  for (const { message } of report.sanity) await write(io.stdout, `${colors.yellow("!")} ${message}\n`);
}

function formatAttackTable(
  io: Io,
  { attacks, examples, worstCase, worstCaseInterval, clean }: AttackSuiteResult,
  right: number,
): string {
  const names = Object.keys(attacks);
  const columns = names.map((name) => attacks[name]!);
  const row = (label: string, show: (summary: AttackSummary) => string, worst = ""): string[] => [
    label,
    ...columns.map(show),
    worst,
  ];
  const rows = [
    row(
      `accuracy under attack (of ${formatCount(examples)})`,
      (summary) => formatPercent(summary.accuracyUnderAttack),
      formatPercent(worstCase),
    ),
    row(
      "  95 % interval",
      (summary) => formatConfidenceInterval(summary.interval),
      formatConfidenceInterval(worstCaseInterval),
    ),
    row(
      `success rate (of ${formatCount(right)} right)`,
      (summary) => formatPercent(summary.successRate),
      right > 0 ? formatPercent((clean - worstCase) / clean) : "–",
    ),
    row("words changed", (summary) => formatPercent(summary.wordsChanged)),
    row("queries, mean", (summary) => formatNumber(summary.queries.mean)),
    row("  median", (summary) => formatNumber(summary.queries.median)),
    row("  95th percentile", (summary) => formatNumber(summary.queries.p95)),
    row("  total", (summary) => formatCount(summary.queries.total)),
    row("texts forwarded", (summary) => formatCount(summary.queries.forwarded)),
    row("tokens forwarded of asked", (summary) => formatFraction(summary.tokens.forwarded, summary.tokens.asked)),
    row("time", (summary) => (summary.seconds > 0 ? formatDuration(1000 * summary.seconds) : "–")),
    row("queries/s", (summary) =>
      summary.seconds > 0 ? formatNumber(summary.queries.total / summary.seconds, 3) : "–",
    ),
  ];
  // One attack is its own worst case.
  const shown = names.length > 1 ? rows : rows.map((cells) => cells.slice(0, -1));
  const head = names.length > 1 ? ["", ...names, "worst case"] : ["", ...names];
  return formatTable(io.stdout, shown, { head, numeric: head.map((_, i) => i).slice(1) });
}

function formatNotes({ attacks, examples, worstCase }: AttackSuiteResult): string[] {
  return [
    describePower(examples, { share: worstCase }),
    ...Object.entries(attacks).flatMap(([name, { exact, nearTies, withoutLanguageModel }]) => [
      ...(exact !== undefined && exact < examples
        ? [
            `${name}: the verdict is proven for ${exact} of ${examples} examples; for the others its accuracy is an upper bound`,
          ]
        : []),
      ...(withoutLanguageModel > 0
        ? [
            `${name}: ${withoutLanguageModel} of ${examples} examples have no language-model swaps and were attacked without`,
          ]
        : []),
      ...(nearTies.length > 0
        ? [
            `${name}: ${nearTies.length} of ${examples} examples hung on a lead under 0.0001, which other batches may turn: ${formatIds(nearTies)}`,
          ]
        : []),
    ]),
  ];
}

function formatIds(ids: readonly string[]): string {
  return ids.length > 5 ? `${ids.slice(0, 5).join(", ")}, …` : ids.join(", ");
}

function formatFraction(part: number, whole: number): string {
  return whole === 0 ? "–" : `${formatCount(part)} of ${formatCount(whole)}`;
}

function formatConfidenceInterval({ low, high }: Interval): string {
  return `${formatPercent(low)} to ${formatPercent(high)}`;
}
