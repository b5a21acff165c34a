import { basename } from "node:path";
import { getColor } from "../analysis/colors.js";
import { drawLine, plotPanel } from "../analysis/plot-panel.js";
import { formatCount, formatInterval, formatNumber, formatPercent } from "../base/format.js";
import { type Html, html, renderLegend, renderTable, trustHtml } from "../report/html.js";
import { renderPage } from "../report/page.js";
import type { AuditResult } from "./audit-result.js";
import { type Claim, severities } from "./claim.js";

const areas = {
  clean: "Without an attack",
  attacked: "Under attack",
  proven: "Proven",
  input: "Input handling",
  data: "Data",
} as const;
const badges = { high: "success", medium: "", low: "low" } as const;

/** The chart and the findings, which the studio shows, too. */
export function renderAuditParts(result: AuditResult): { readonly lead: Html; readonly findings: Html } {
  const { findings } = result;
  const sorted = severities.map((severity) => findings.filter((each) => each.severity === severity).map(renderFinding));
  const none = html`<p>Nothing that was checked speaks against the model.</p>`;
  return { lead: renderCurve(result), findings: findings.length === 0 ? none : html`${sorted}` };
}

export function renderAudit(result: AuditResult): string {
  const { subject, findings, claims, notMeasured, notCovered, threatModel, temper } = result;
  const parts = renderAuditParts(result);
  const kept = claims.filter(({ severity }) => severity === null);
  return renderPage({
    title: `Audit of ${basename(subject.model)}`,
    lead: html`<p class="verdict">${renderVerdict(result)}</p>${parts.lead}`,
    sections: [
      {
        ...{ id: "findings", title: `Findings (${formatCount(findings.length)})` },
        content: parts.findings,
      },
      { id: "claims", title: "All claims", content: renderClaims(claims) },
      { id: "numbers", title: "Numbers", content: renderNumbers(result) },
      {
        ...{ id: "threat", title: "Threat model" },
        content: html`${renderFacts(threatModel)}<p class="note">The words are those of NIST AI 100-2. A claim is proven, has a
counterexample, or is inconclusive, over its domain and by its method, as in ISO/IEC 24029-2.</p>`,
      },
      {
        ...{ id: "limits", title: "Not covered" },
        content: html`${notMeasured.length > 0 && html`<p>Out of time: ${notMeasured.join("; ")}.</p>`}
<ul>${notCovered.map((each) => html`<li>${each}</li>`)}</ul>`,
      },
      { id: "evidence", title: "Evidence", content: renderEvidence(result), isFolded: true },
    ],
    footer: `Created by Temper ${temper}: ${formatCount(findings.length)} findings, ${formatCount(kept.length)} other claims. This file loads nothing.`,
  });
}

function renderVerdict({ verdict, findings }: AuditResult): Html {
  const command = findings.map(({ evidence }) => evidence.command).find((each) => each && verdict.includes(each));
  if (!command) return html`${verdict}`;
  const [before, after] = verdict.split(command);
  return html`${before}<code>${command}</code>${after}`;
}

/** Accuracy over the number of queries: how much a model resists depends on how long somebody tries. */
function renderCurve({ attacks, evaluation, clean }: AuditResult): Html {
  const names = Object.keys(attacks);
  if (names.length === 0)
    return html`<p class="note">Accuracy ${formatPercent(clean)} (95% CI ${formatInterval(evaluation.interval.low, evaluation.interval.high)}). No attack was run.</p>`;
  const budgets = [...new Set(Object.values(attacks).flatMap(({ curve }) => curve.map(({ queries }) => queries)))];
  budgets.sort((a, b) => a - b);
  const lines = names.map((name, i) => ({
    color: getColor(i),
    points: attacks[name]!.curve.map(({ queries, accuracy, interval }) => ({
      ...{ x: budgets.indexOf(queries), y: 100 * accuracy },
      ...{ low: 100 * interval.low, high: 100 * interval.high },
    })),
  }));
  const title = "Accuracy over the number of queries per text, with 95% CIs";
  const { content } = plotPanel(title, {
    ...{ width: 440, height: 250 },
    x: {
      label: "queries per text",
      ticks: budgets.map((_, i) => i),
      tickFormat: (i: number) => (i === 0 ? "no attack" : formatCount(budgets[i]!)),
    },
    y: { label: "accuracy (%)", grid: true, domain: [0, 100] },
    marks: lines.map(({ points, color }) => drawLine(points, { color, r: 3 })),
  });
  const words = names.map((name) => {
    const { curve, examples } = attacks[name]!;
    return `${name}: ${formatPercent(curve[0]!.accuracy)} before and ${formatPercent(curve.at(-1)!.accuracy)} after, ${formatCount(examples)} texts`;
  });
  return html`<div class="accuracies"><figure class="chart"><figcaption>${title}<span class="sr-only">: ${words.join("; ")}</span></figcaption>
${renderLegend(words.map((label, i) => ({ color: getColor(i), label })))}
<div aria-hidden="true">${trustHtml(content)}</div></figure></div>`;
}

function renderFinding({ id, severity, claim, evidence, outcome }: Claim): Html {
  const { summary, texts, remedy, command, ids, domain, method } = evidence;
  return html`<article class="example"><h3>${id}</h3> <span class="badge ${badges[severity!]}">${severity}</span>
<p class="text">${summary}</p>
${
  texts.length > 0 &&
  html`<details><summary>Texts that show it${ids.length > texts.length && html` (${formatCount(texts.length)} of ${formatCount(ids.length)})`}</summary>
<ul>${texts.map(({ id: text, text: content, note }) => html`<li><q>${content}</q> <small>${text && html`${text}: `}${note}</small></li>`)}</ul></details>`
}
${remedy && html`<p>${remedy}</p>`}${command && html`<pre>${command}</pre>`}
<p class="note">Claim: ${claim} Outcome: ${outcome}. Domain: ${domain}. Method: ${method}.</p></article>`;
}

function renderClaims(claims: readonly Claim[]): Html {
  return html`${Object.entries(areas).map(([area, title]) => {
    const rows = claims
      .filter((each) => each.area === area)
      .map(
        ({ claim, outcome, severity, evidence }) => html`<li><b>${claim}</b> ${evidence.summary}
<small>${severity === null ? outcome : `${outcome}, ${severity} severity`}</small></li>`,
      );
    return rows.length > 0 && html`<h3>${title}</h3><ul>${rows}</ul>`;
  })}`;
}

function renderNumbers({ evaluation, attacks }: AuditResult): Html {
  const { metrics, confusionMatrix, labels } = evaluation;
  const head = ["label \\ predicted", ...labels];
  const matrix = confusionMatrix.map((row, i) => [labels[i]!, ...row.map(formatCount)]);
  const attacked = Object.entries(attacks).map(([name, { accuracy, examples, successRate }]) => [
    ...[name, formatCount(examples), formatPercent(accuracy), formatPercent(successRate)],
  ]);
  return html`${renderTable(
    "Metrics",
    ["metric", "value"],
    Object.entries(metrics).map(([name, value]) => [name, formatNumber(value)]),
  )}<h3>Predictions</h3>${renderTable("Predictions", head, matrix)}
${attacked.length > 0 && html`<h3>Attacks</h3>${renderTable("Attacks", ["attack", "texts", "accuracy", "success rate"], attacked)}`}`;
}

function renderFacts(facts: Readonly<Record<string, string | null>>): Html {
  return html`<dl>${Object.entries(facts).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value ?? "none"}</dd></div>`)}</dl>`;
}

function renderEvidence({ subject, files, plan: { attacks: _, ...sizes } }: AuditResult): Html {
  const numbers = Object.entries(sizes).map(([name, value]) => [name, formatNumber(value)]);
  return html`<p>temper verify audit.json computes the claims again from the model, the data and these files.</p>
${renderFacts({ ...subject, ...files })}
<h3>Plan</h3>${renderFacts(Object.fromEntries(numbers))}`;
}
