import { type Html, html } from "../html.js";
import type { ReportRun } from "../report-run.js";

/**
 * Shows the figures of the analyses. They are images, so that nothing inside them can run or load
 * anything.
 */
export function renderFiguresSection(runs: readonly ReportRun[]): Html | null {
  const figures = runs.flatMap(({ run, figures: own }) => own.map((figure) => ({ folder: run.folder, ...figure })));
  if (figures.length === 0) return null;
  return html`<div class="figures">${figures.map(
    ({ folder, title, summary, svg }) => html`
<figure><img src="data:image/svg+xml;base64,${svg.toString("base64")}" alt="${summary ?? title}">
<figcaption><b>${title}</b>, ${folder}${summary && html`<br>${summary}`}</figcaption></figure>`,
  )}</div>`;
}
