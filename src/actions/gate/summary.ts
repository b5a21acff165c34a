import { formatCount, formatPercent } from "../../base/format.js";
import { splitChangedText } from "../../evaluation/changed-text.js";
import { describeGuard } from "../../proofs/certificates/index.js";
import type { GateFailure, GateReport } from "./gate-report.js";
import { formatCheck, type GateCheck } from "./judge.js";

const titles = { passed: "passed", regressed: "regressed", unresolved: "could not be decided" } as const;

/** Why a gate decided as it did, in one paragraph. */
export function describeGate({ verdict, checks, candidate, baseline, guard }: GateReport): string {
  const decisive = checks.filter((check) => check.verdict === verdict);
  const start = `The gate ${titles[verdict]}: ${candidate} compared with ${baseline}.`;
  return [start, ...decisive.map(({ reason }) => reason), ...(guard ? [describeGuard(guard)] : [])].join(" ");
}

function formatRow(check: GateCheck): string {
  return `| ${[...formatCheck(check).slice(0, -1), `**${titles[check.verdict]}**`].join(" | ")} |`;
}

/** Escapes what Markdown and HTML would interpret. */
function escapeMarkdown(text: string): string {
  return text.replaceAll(/[\\`*_{}[\]<>#+~|!&-]/g, (character) =>
    character === "<" ? "&lt;" : character === ">" ? "&gt;" : character === "&" ? "&amp;" : `\\${character}`,
  );
}

/** The text with deleted and new words, in one line per field. */
function formatDiff({ result }: GateFailure): string[] {
  const { fields, changed, getOriginal } = splitChangedText(result);
  return fields.map((pieces) =>
    pieces
      .map(({ word, text }) => {
        if (word === null || !changed.has(word)) return escapeMarkdown(text);
        const original = getOriginal(word);
        return `${original ? `~~${escapeMarkdown(original)}~~ ` : ""}**${escapeMarkdown(text)}**`;
      })
      .join("")
      .replaceAll(/\s+/g, " ")
      .trim(),
  );
}

function formatFailure(failure: GateFailure, labels: readonly string[]): string {
  const { id, attack, label, baselineScore, candidateScore } = failure;
  const kind = attack === null ? "wrong without an attack" : `fooled by ${attack}`;
  const heading =
    `- **${escapeMarkdown(id)}**, ${escapeMarkdown(labels[label] ?? String(label))}: ${kind}; ` +
    `probability of the label ${formatPercent(baselineScore)} (baseline) → ${formatPercent(candidateScore)}`;
  return [heading, ...formatDiff(failure).map((line) => `  > ${line}`)].join("\n");
}

/** The result of a gate as Markdown, for a pull request. */
export function formatSummary(report: GateReport): string {
  const { checks, failures, newFailures, labels, examples } = report;
  const list = (title: string, shown: readonly GateFailure[], total: number): string[] =>
    total === 0
      ? []
      : [
          `### ${title} (${shown.length < total ? `${shown.length} of ` : ""}${formatCount(total)})`,
          "",
          ...shown.map((failure) => formatFailure(failure, labels)),
          "",
        ];
  return [
    `## Robustness gate: ${titles[report.verdict]}`,
    "",
    escapeMarkdown(describeGate(report)),
    "",
    "| check | baseline | candidate | texts | 95% bounds | required | verdict |",
    "|---|---|---|---|---|---|---|",
    ...checks.map(formatRow),
    "",
    ...list(
      "New failures under attack",
      failures.filter(({ attack }) => attack !== null),
      newFailures.attacked,
    ),
    ...list(
      "New failures on clean text",
      failures.filter(({ attack }) => attack === null),
      newFailures.clean,
    ),
    `${formatCount(examples)} attacked texts; bounds are one-sided (Tango's score interval of paired differences).`,
    "",
  ].join("\n");
}
