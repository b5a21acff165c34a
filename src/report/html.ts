/** A piece of HTML that is safe to stand in a page as it is. */
export class Html {
  constructor(readonly text: string) {}
}

/** What a template takes: HTML as it is, lists piece by piece, nothing for nothing, and anything else as text. */
export type Content = Html | string | number | null | undefined | false | readonly Content[];

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** A template of HTML: whatever is put in is escaped, unless it is HTML made by a template itself. */
export function html(strings: TemplateStringsArray, ...values: readonly Content[]): Html {
  return new Html(strings.reduce((text, string, i) => text + renderContent(values[i - 1]) + string));
}

/** HTML that we wrote ourselves: styles, scripts, figures of our own. Never text that came from outside. */
export function trustHtml(text: string): Html {
  return new Html(text);
}

/** Text in which no character means anything to a browser. Control characters, which HTML cannot hold, show as a replacement. */
export function escapeText(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones meant
  return text
    .replace(/[&<>"']/g, (character) => entities[character]!)
    .replace(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/g, "\ufffd");
}

function renderContent(value: Content): string {
  if (value === null || value === undefined || value === false) return "";
  if (value instanceof Html) return value.text;
  return Array.isArray(value) ? value.map(renderContent).join("") : escapeText(String(value));
}
