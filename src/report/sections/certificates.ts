import { formatCount, formatInterval, formatPercent } from "../../base/format.js";
import { formatDegeneracy } from "../../evaluation/degenerate.js";
import { describeEdits, describeGuard } from "../../proofs/certificates/index.js";
import type { RunCertificates } from "../certificates.js";
import { type Html, html, renderTable } from "../html.js";
import type { ReportRun } from "../report-run.js";

/**
 * Shows certified accuracy by the number of edits beside accuracy under attack of the same model:
 * the accuracy against the best attack is between the two.
 */
export function renderCertificatesSection(runs: readonly ReportRun[]): Html | null {
  const tables = runs.flatMap(({ run, certificates }) =>
    certificates.map((each) => renderCertificate(run.folder, each)),
  );
  return tables.length > 0 ? html`${tables}` : null;
}

function renderCertificate(folder: string, { report, attacked }: RunCertificates): Html {
  const { kind, clean, cleanInterval, certified, covers, examples, task, split, guard, degeneracy } = report;
  const names = [...attacked.keys()];
  // The recall of the guarded label is not the accuracy that windows certify.
  const hasBracket = names.length > 0 && !guard;
  const head = [
    "edits",
    "certified accuracy",
    "95% CI",
    ...names.map((name) => (guard ? `recall under ${name}` : `under ${name}, at most so many`)),
    ...(hasBracket ? ["0% to 100%"] : []),
  ];
  const rows = [
    [
      ...["none", formatPercent(clean), formatInterval(cleanInterval.low, cleanInterval.high)],
      ...names.map(() => "–"),
      ...(hasBracket ? [renderBracket(clean, clean)] : []),
    ],
    ...certified.map((row, i) => {
      const attackedHere = names.map((name) => attacked.get(name)![i] ?? null);
      return [
        ...[describeEdits(row), formatPercent(row.accuracy), formatInterval(row.interval.low, row.interval.high)],
        ...attackedHere.map(formatOptional),
        ...(hasBracket ? [renderBracket(row.accuracy, findLowest(attackedHere))] : []),
      ];
    }),
  ];
  const bracket =
    names.length > 0
      ? "The accuracy against the strongest attack with so many edits is between the two columns."
      : "No attack on this model and these texts is in the run folder. Run temper attack to see the upper bound.";
  return html`
<h3>${kind}, ${folder}</h3><p>${formatCount(examples)} texts of ${task} ${split}. Covers ${covers}. Every certificate is a proof. ${guard && describeGuard(guard)} ${degeneracy && formatDegeneracy(degeneracy, "certified accuracy")} ${certified.some(({ substitutions }) => substitutions > 0) && bracket}</p>
${renderTable("Certified accuracy by the number of edits", head, rows)}`;
}

function findLowest(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length > 0 ? Math.min(...known) : null;
}

/** Draws the interval in which the accuracy against the strongest attack is; nothing without an attack. */
function renderBracket(low: number, high: number | null): Html | string {
  if (high === null) return "–";
  const percent = (value: number): string => `${(100 * value).toFixed(1)}%`;
  const mark = (at: number): Html => html`<line x1="${percent(at)}" x2="${percent(at)}" y1="2" y2="12"/>`;
  return html`<svg class="bracket" aria-hidden="true"><line x1="0" x2="100%" y1="7" y2="7" class="axis"/>
<line x1="${percent(low)}" x2="${percent(high)}" y1="7" y2="7"/>${mark(low)}${mark(high)}</svg>`;
}

function formatOptional(value: number | null): string {
  return value === null ? "–" : formatPercent(value);
}
