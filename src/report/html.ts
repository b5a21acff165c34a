import { capitalize } from "../base/format.js";

/** HTML that is safe to insert into a page. */
export class Html {
  constructor(readonly text: string) {}
}

/**
 * The values of a template: HTML is inserted as it is, lists item by item, everything else as text.
 */
export type Content = Html | string | number | null | undefined | false | readonly Content[];

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** A template of HTML. Values are escaped unless they are HTML from another template. */
export function html(strings: TemplateStringsArray, ...values: readonly Content[]): Html {
  return new Html(strings.reduce((text, string, i) => text + renderContent(values[i - 1]) + string));
}

/** Marks styles, scripts and charts of this package as HTML. Never use it for text from outside. */
export function trustHtml(text: string): Html {
  return new Html(text);
}

/**
 * Escapes all characters with a meaning in HTML. Control characters, which HTML cannot contain, are
 * replaced.
 */
function escapeText(text: string): string {
  return (
    text
      .replace(/[&<>"']/g, (character) => entities[character]!)
      // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are replaced on purpose
      .replace(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/g, "\ufffd")
  );
}

function renderContent(value: Content): string {
  if (value === null || value === undefined || value === false) return "";
  if (value instanceof Html) return value.text;
  return Array.isArray(value) ? value.map(renderContent).join("") : escapeText(String(value));
}

/** A bar of a fraction, for eyes only. It has no style of its own, which a policy may forbid. */
export function renderBar(fraction: number): Html {
  const width = `${(100 * Math.min(1, Math.max(0, fraction))).toFixed(2)}%`;
  return html`<svg class="bar" aria-hidden="true"><rect width="${width}" height="100%"/></svg>`;
}

/** The colors of a chart. They have no style of their own, either. */
export function renderLegend(entries: readonly { readonly color: string; readonly label: Content }[]): Html {
  return html`<ul class="legend">${entries.map(
    ({ color, label }) => html`
<li><svg width="18" height="8" aria-hidden="true"><rect width="18" height="8" rx="2" fill="${color}"/></svg> ${label}</li>`,
  )}</ul>`;
}

/** A table whose rows begin with their name. Small screens scroll it. */
export function renderTable(title: string, head: readonly string[], rows: readonly (readonly Content[])[]): Html {
  return html`<div class="scroll" role="region" aria-label="${title}" tabindex="0"><table>
<caption class="sr-only">${title}</caption>
<thead><tr>${head.map((name) => html`<th scope="col">${capitalize(name)}</th>`)}</tr></thead>
<tbody>${rows.map(
    ([first, ...others]) => html`<tr><th scope="row">${first}</th>${others.map((cell) => html`<td>${cell}</td>`)}</tr>`,
  )}</tbody></table></div>`;
}

/** Facts with their names. Empty ones are left out. */
export function renderFacts(facts: readonly (readonly [string, Content])[]): Html {
  const known = facts.filter(([, value]) => value !== null && value !== "");
  return html`<dl>${known.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}
