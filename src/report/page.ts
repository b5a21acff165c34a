import { createHash } from "node:crypto";
import { type Html, html, trustHtml } from "./html.js";
import { script } from "./script.js";
import { stylesheet } from "./stylesheet.js";

export interface Section {
  readonly id: string;
  readonly title: string;
  readonly content: Html;
}

export interface Page {
  readonly title: string;
  readonly lead: string;
  readonly sections: readonly Section[];
  readonly footer: string;
}

/** One file with all that is in it: a policy forbids the browser to load anything, or to run any other script. */
export function renderPage({ title, lead, sections, footer }: Page): string {
  const hash = createHash("sha256").update(script).digest("base64");
  const policy = `default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'`;
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="icon" href="data:,">
<style>${trustHtml(stylesheet)}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the results</a>
<header class="page"><h1>${title}</h1><p class="lead">${lead}</p></header>
<nav aria-label="Contents"><ul>${sections.map((section) => html`<li><a href="#${section.id}">${section.title}</a></li>`)}</ul></nav>
<main id="main">${sections.map(
    ({ id, title: heading, content }) => html`
<section aria-labelledby="${id}"><h2 id="${id}">${heading}</h2>${content}</section>`,
  )}
</main>
<footer>${footer}</footer>
<script>${trustHtml(script)}</script>
</body>
</html>
`;
  return page.text;
}
