import { type Html, html } from "../html.js";
import type { ReportRun } from "../read-run.js";

/** What each analysis draws, in a line. */
const figureTitles: Readonly<Record<string, string>> = {
  distance: "Distance to the pre-trained weights",
  tradeoff: "Robust against clean accuracy",
  ablation: "What the options do",
  geometry: "Features of texts, on the circle",
  landscape: "Loss around the weights",
  interpolation: "Loss between two models",
  probe: "What the features are about",
  consistency: "Predictions that differ between two dropouts",
};

/** The figures of the analyses. As images they cannot run or load anything, whatever is in them. */
export function renderFiguresSection(runs: readonly ReportRun[]): Html | null {
  const figures = runs.flatMap(({ folder, figures: found }) => found.map((figure) => ({ folder, ...figure })));
  if (figures.length === 0) return null;
  return html`<div class="figures">${figures.map(({ folder, name, svg, meaning }) => {
    const title = figureTitles[name] ?? name;
    return html`
<figure><img src="data:image/svg+xml;base64,${svg.toString("base64")}" alt="${meaning ?? title}">
<figcaption><b>${title}</b>, ${folder}${meaning && html`<br>${meaning}`}</figcaption></figure>`;
  })}</div>`;
}
