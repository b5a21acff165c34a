import { Resvg } from "@resvg/resvg-js";
import { themes } from "./colors.js";

export interface Panel {
  readonly title: string;
  readonly width: number;
  readonly height: number;
  readonly content: string;
}

export interface LegendEntry {
  readonly label: string;
  readonly color: string;
  readonly shape: "line" | "circle" | "triangle" | "square";
}

export interface Figure {
  readonly title: string;
  readonly caption: string;
  readonly legend?: readonly LegendEntry[];
  readonly panels: readonly Panel[];
  readonly columns: number;
}

const margin = 20;
const gap = 18;
const lineHeight = 15;
export const sizes = { title: 15, panel: 12, text: 11 };
const minWidth = 420;
/** Names without quotes, which the PNG renderer cannot parse. */
const fonts = "system-ui, Segoe UI, Helvetica Neue, Arial, DejaVu Sans, sans-serif";

/** Estimates the width of a text from above; real text metrics are not available here. */
export function estimateTextWidth(text: string, size = sizes.text): number {
  return text.length * size * 0.56;
}

export function renderFigure(figure: Figure): string {
  const { panels, columns, legend: keys = [] } = figure;
  const rows = Array.from({ length: Math.ceil(panels.length / columns) }, (_, row) =>
    panels.slice(row * columns, (row + 1) * columns),
  );
  const rowWidths = rows.map((row) => row.reduce((sum, panel) => sum + panel.width, (row.length - 1) * gap));
  const inner = Math.max(minWidth, estimateTextWidth(figure.title, sizes.title), ...rowWidths);
  const parts: string[] = [];
  let y = margin + sizes.title;
  parts.push(renderText(margin, y, figure.title, sizes.title, 'font-weight="600"'));
  y += 10;
  for (const row of layOutLegend(keys, inner)) {
    y += lineHeight + 2;
    for (const { key, x } of row) parts.push(renderLegendEntry(key, margin + x, y));
  }
  for (const row of rows) {
    const titles = row.map(({ title, width }) => (title === "" ? [] : wrapText(title, width, 1.12 * sizes.panel)));
    const lines = Math.max(...titles.map(({ length }) => length));
    y += lines > 0 ? 14 + sizes.panel + (lines - 1) * lineHeight : 4;
    let x = margin;
    for (const [k, panel] of row.entries()) {
      // Titles of one row end at the same height, close to their panels.
      const top = y - (titles[k]!.length - 1) * lineHeight;
      for (const [line, text] of titles[k]!.entries())
        parts.push(renderText(x, top + line * lineHeight, text, sizes.panel, 'font-weight="600"'));
      parts.push(`<g transform="translate(${x},${y + 6})">${panel.content}</g>`);
      x += panel.width + gap;
    }
    y += 6 + Math.max(...row.map((panel) => panel.height));
  }
  y += 8;
  for (const line of wrapText(figure.caption, inner)) {
    y += lineHeight;
    parts.push(renderText(margin, y, line, sizes.text, 'fill-opacity="0.75"'));
  }
  return renderDocument(figure, Math.ceil(inner + 2 * margin), Math.ceil(y + margin), parts.join("\n"));
}

function renderDocument({ title, caption }: Figure, width: number, height: number, content: string): string {
  const { light, dark } = themes;
  const style = ({ ink, paper }: { ink: string; paper: string }): string =>
    `.temper-figure{color:${ink};background:${paper}}`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" class="temper-figure" role="img" viewBox="0 0 ${width} ${height}" `,
    `width="${width}" height="${height}" color="${light.ink}" fill="currentColor" `,
    `font-family="${fonts}" font-size="${sizes.text}">\n`,
    `<title>${escapeXml(title)}</title>\n<desc>${escapeXml(caption)}</desc>\n`,
    `<style>${style(light)}@media (prefers-color-scheme:dark){${style(dark)}}</style>\n${content}\n</svg>\n`,
  ].join("");
}

export function renderPng(svg: string, scale = 2): Uint8Array {
  // The renderer has no media queries. The attributes of the root element are the light theme.
  const plain = svg.replace(/<style>.*?<\/style>/s, "");
  const options = {
    background: themes.light.paper,
    fitTo: { mode: "zoom", value: scale },
    font: { defaultFontFamily: "DejaVu Sans" },
  } as const;
  return new Resvg(plain, options).render().asPng();
}

/** Rounds numbers in attributes to two decimals, finer than any screen. Text is not changed. */
export function roundSvgNumbers(markup: string): string {
  return markup.replace(/="[^"]*"/g, (attribute) =>
    attribute.replace(/-?\d+\.\d{3,}/g, (number) => String(Number(Number(number).toFixed(2)))),
  );
}

function escapeXml(text: string): string {
  const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[&<>"]/g, (character) => entities[character]!);
}

function renderText(x: number, y: number, text: string, size: number = sizes.text, more = ""): string {
  return `<text x="${x}" y="${y}" font-size="${size}" ${more}>${escapeXml(text)}</text>`;
}

const legendGap = 18;
const legendMarkWidth = 20;

function layOutLegend(keys: readonly LegendEntry[], width: number): { key: LegendEntry; x: number }[][] {
  const rows: { key: LegendEntry; x: number }[][] = [];
  let x = width;
  for (const key of keys) {
    const needed = legendMarkWidth + estimateTextWidth(key.label) + legendGap;
    if (x + needed - legendGap > width) {
      rows.push([]);
      x = 0;
    }
    rows.at(-1)!.push({ key, x });
    x += needed;
  }
  return rows;
}

function renderLegendEntry({ label: text, color, shape }: LegendEntry, x: number, y: number): string {
  const middle = y - 4;
  const center = x + 7;
  const marks: Record<LegendEntry["shape"], string> = {
    line: `<path d="M${x},${middle}h14" stroke="${color}" stroke-width="2.5"/>`,
    circle: `<circle cx="${center}" cy="${middle}" r="4.5" fill="${color}"/>`,
    triangle: `<path d="M${center},${middle - 5}l5,9h-10z" fill="${color}"/>`,
    square: `<rect x="${center - 4}" y="${middle - 4}" width="8" height="8" fill="${color}"/>`,
  };
  return marks[shape] + renderText(x + legendMarkWidth, y, text);
}

function wrapText(text: string, width: number, size = sizes.text): string[] {
  const lines: string[] = [];
  for (const word of text.split(/\s+/)) {
    const line = lines.at(-1);
    if (line !== undefined && estimateTextWidth(`${line} ${word}`, size) <= width)
      lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(word);
  }
  return lines;
}
