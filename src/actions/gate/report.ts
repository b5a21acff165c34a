import type { AttackResult } from "../../attacks/result.js";
import { formatCount, formatPercent } from "../../base/format.js";
import { splitChangedText } from "../../evaluation/changed-text.js";
import type { GateVerdict } from "../../evaluation/non-inferiority.js";
import { describeGuardMetrics, type listGuardMetrics } from "../../evaluation/operating-points.js";
import { describeGuard } from "../../proofs/certificates/index.js";
import type { EvaluationResult } from "../../runs/results.js";
import { formatCheck, type GateCheck } from "./judge.js";

const titles = { passed: "passed", regressed: "regressed", unresolved: "could not be decided" } as const;

export function describeGate(report: GateReport): string {
  const { verdict, checks, candidate, baseline, guard, operatingPoints } = report;
  const decisive = checks.filter((check) => check.verdict === verdict);
  const start = `The gate ${titles[verdict]}: ${candidate} compared with ${baseline}.`;
  const reasons = decisive.map(({ reason }) => reason);
  const rates = guard ? [describeGuard(guard)] : [];
  const points = operatingPoints.length > 0 ? [`Operating points: ${describeGuardMetrics(operatingPoints)}`] : [];
  return [start, ...reasons, ...rates, ...points].join(" ");
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
    `${formatCount(examples)} attacked texts; bounds are one-sided (Tango's score interval of paired differences, corrected for continuity).`,
    "",
  ].join("\n");
}

/** A text that only the candidate gets wrong. */
export interface GateFailure {
  readonly id: string;
  readonly attack: string | null;
  readonly label: number;
  readonly baselineScore: number;
  readonly candidateScore: number;
  readonly result: AttackResult;
}

export interface GateReport {
  readonly verdict: GateVerdict;
  readonly candidate: string;
  readonly baseline: string;
  readonly task: string;
  readonly labels: readonly string[];
  readonly examples: number;
  readonly checks: readonly GateCheck[];
  /** The numbers of the candidate's calibrated guard; null if it has none. */
  readonly guard: NonNullable<EvaluationResult["guard"]> | null;
  /** Of the candidate, for the label that it flags; empty if it flags none. */
  readonly operatingPoints: ReturnType<typeof listGuardMetrics>;
  readonly failures: readonly GateFailure[];
  readonly newFailures: { readonly attacked: number; readonly clean: number };
  readonly seconds: number;
  readonly finishedAt: string;
}

/** Escapes text for XML. Characters that XML does not allow are replaced. */
function escapeXml(text: string): string {
  return text
    .replaceAll(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd")
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}

/**
 * Writes the checks of a gate as JUnit XML: a regression is a failure, an open question an error.
 */
export function formatJunit({ candidate, baseline, checks, examples, seconds, finishedAt }: GateReport): string {
  const count = (verdict: string): number => checks.filter((check) => check.verdict === verdict).length;
  const properties = { candidate, baseline, examples: String(examples) };
  const lines = [
    '<?xml version="1.0" encoding="UTF-8"?>',
    "<testsuites>",
    `  <testsuite name="temper gate" tests="${checks.length}" failures="${count("regressed")}" ` +
      `errors="${count("unresolved")}" skipped="0" time="${seconds.toFixed(3)}" ` +
      `timestamp="${finishedAt.slice(0, 19)}">`,
    "    <properties>",
    ...Object.entries(properties).map(
      ([name, value]) => `      <property name="${name}" value="${escapeXml(value)}"/>`,
    ),
    "    </properties>",
    ...checks.flatMap(({ name, verdict, reason }) => {
      const start = `    <testcase name="${escapeXml(name)}" classname="temper.gate" time="0"`;
      if (verdict === "passed") return [`${start}/>`];
      const element = verdict === "regressed" ? "failure" : "error";
      return [
        `${start}>`,
        `      <${element} message="${verdict}" type="${verdict}">${escapeXml(reason)}</${element}>`,
        "    </testcase>",
      ];
    }),
    "  </testsuite>",
    "</testsuites>",
  ];
  return `${lines.join("\n")}\n`;
}
