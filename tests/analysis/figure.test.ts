import * as Plot from "@observablehq/plot";
import { describe, expect, it } from "vitest";
import { getHeatColor, palette, themes } from "../../src/analysis/colors.js";
import { type Figure, renderFigure, renderPng } from "../../src/analysis/figure.js";
import { formatTick, plotPanel } from "../../src/analysis/plot-panel.js";
import { expectClose, float64 } from "../rounding.js";

const hostile = `</title><script>alert("1")</script> & <img onerror=x>`;
const figure = (label: string): Figure => ({
  title: label,
  caption: label,
  legend: [{ label, color: palette[0], shape: "line" }],
  panels: [
    plotPanel(label, { x: { label }, marks: [Plot.text([label], { x: 0, y: 0, text: (text: string) => text })] }),
  ],
  columns: 1,
});

describe("colors", () => {
  it("categories have enough contrast in both themes and differ from each other", () => {
    for (const color of palette)
      for (const { paper } of Object.values(themes)) expect(computeContrast(color, paper)).toBeGreaterThan(3);
    expect(new Set(palette).size).toBe(palette.length);
    for (const { ink, paper } of Object.values(themes)) expect(computeContrast(ink, paper)).toBeGreaterThan(7);
    expectClose(computeContrast("#000000", "#ffffff"), 21, float64);
  });

  it("the color scale accepts every fraction", () => {
    for (const value of [-1, 0, 0.3, 0.5, 0.999, 1, 2]) expect(getHeatColor(value)).toMatch(/^#[0-9a-f]{6}$/);
    expect(getHeatColor(0)).toBe(getHeatColor(-1));
    expect(computeContrast(getHeatColor(1), "#000000")).toBeGreaterThan(computeContrast(getHeatColor(0), "#000000"));
  });
});

describe("figures", () => {
  it("escape hostile text", () => {
    const svg = renderFigure(figure(hostile));
    expect(svg).not.toMatch(/<script|<img/);
    expect(svg).toContain("&lt;script&gt;");
  });

  it("follow the reader's theme and have a title", () => {
    const svg = renderFigure(figure("loss"));
    expect(svg).toMatch(/prefers-color-scheme:dark/);
    expect(svg).toMatch(/role="img"/);
    expect(svg).toContain("<title>loss</title>");
    // No references that only a page or a browser can resolve.
    expect(svg).not.toMatch(/var\(|http:\/\/(?!www\.w3\.org)|href/);
  });

  it("have the same size as PNG, times the scale", () => {
    const svg = renderFigure(figure("loss"));
    const [, width, height] = /width="(\d+)" height="(\d+)"/.exec(svg)!;
    const png = Buffer.from(renderPng(svg, 2));
    expect([png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual([2 * Number(width), 2 * Number(height)]);
  });
});

/** The WCAG contrast ratio of two colors, from 1 to 21. */
function computeContrast(first: string, second: string): number {
  const [dark, light] = [computeLuminance(first), computeLuminance(second)].sort((a, b) => a - b) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

function computeLuminance(color: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const value = Number.parseInt(color.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

it("ticks have no trailing zeros, however small their step is", () => {
  expect([75.75, 0.1 + 0.2, 12_000, 0, 1e-7, 0.00005].map(formatTick)).toEqual([
    ...["75.75", "0.3", "12,000", "0", "0.0000001", "0.00005"],
  ]);
  const points = [75.75, 75.750001].map((y, x) => ({ x, y }));
  const { content } = plotPanel("", { marks: [Plot.dot(points, { x: "x", y: "y" })] });
  expect(content).not.toMatch(/>\d+\.\d*00+</);
});
