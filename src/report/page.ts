import { createHash } from "node:crypto";
import { type Html, html, trustHtml } from "./html.js";
import { stylesheet } from "./stylesheet.js";

export interface Report {
  readonly html: string;
  readonly runs: number;
  readonly attacks: number;
  readonly examples: number;
  readonly figures: number;
}

export interface Section {
  readonly id: string;
  readonly title: string;
  readonly content: Html;
  /** True if only the heading is shown until somebody opens it. */
  readonly isFolded?: boolean;
}

export interface Page {
  readonly title: string;
  readonly lead: Html;
  readonly sections: readonly Section[];
  readonly footer: string;
}

/** The line by which a report recognizes an earlier one. */
export const generator = '<meta name="generator" content="temper">';

/** Filters the attacked examples. Without the script all of them are shown. */
const script = `
"use strict";
// A link to a folded section opens it.
const unfold = () => {
  const details = location.hash.length > 1 && document.getElementById(location.hash.slice(1))?.closest("details");
  if (details) details.open = true;
};
addEventListener("hashchange", unfold);
unfold();
for (const form of document.querySelectorAll("form.filters")) {
  const cards = [...form.parentElement.querySelectorAll("article.example")];
  const output = form.querySelector("output");
  const update = () => {
    const data = new FormData(form);
    const outcome = data.get("outcome") || "";
    const attack = data.get("attack") || "";
    let count = 0;
    for (const card of cards) {
      const { kinds, attack: own } = card.dataset;
      card.hidden = (outcome && !kinds.split(" ").includes(outcome)) || (attack && own !== attack);
      if (!card.hidden) count++;
    }
    output.textContent = count + " of " + cards.length + " examples";
  };
  form.addEventListener("change", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  update();
}
// Open all details, so that a printed report is complete.
addEventListener("beforeprint", () => document.querySelectorAll("details:not(.omitted)").forEach((element) => (element.open = true)));
`;

/**
 * Renders one self-contained file. A policy forbids the browser to load anything or to run any
 * other script.
 */
export function renderPage({ title, lead, sections, footer }: Page): string {
  const hash = createHash("sha256").update(script).digest("base64");
  const policy =
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; " +
    `script-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'`;
  const links = sections.map((section) => html`<li><a href="#${section.id}">${section.title}</a></li>`);
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
${trustHtml(generator)}
<title>${title}</title>
<link rel="icon" href="data:,">
<style>${trustHtml(stylesheet)}</style>
</head>
<body>
<a class="skip" href="#main">Skip to content</a>
<header class="page"><h1>${title}</h1>${lead}</header>
<nav aria-label="Contents"><ul>${links}</ul></nav>
<main id="main">${sections.map(
    ({ id, title: heading, content, isFolded }) => html`
<section aria-labelledby="${id}"><details class="fold"${!isFolded && html` open`}>
<summary><h2 id="${id}">${heading}</h2></summary>${content}</details></section>`,
  )}
</main>
<footer>${footer}</footer>
<script>${trustHtml(script)}</script>
</body>
</html>
`;
  return page.text;
}
