import type { GateReport } from "./gate-report.js";

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
