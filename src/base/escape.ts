/**
 * Spreadsheets compute cells that begin like a formula. An apostrophe in front makes them text. Numbers
 * stay as they are.
 */
export function escapeFormula(cell: string): string {
  const isNumber = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(cell);
  return /^[=+\-@\t\r]/.test(cell) && !isNumber ? `'${cell}` : cell;
}

/** Markdown shows HTML. Labels and names come from data, so theirs is shown as text, on one line. */
export function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replace(/\s+/g, " ");
}
