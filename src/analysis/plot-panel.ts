import * as Plot from "@observablehq/plot";
import { parseHTML } from "linkedom";
import { type Panel, roundSvgNumbers, sizes } from "./figure.js";

export function plotPanel(title: string, options: Plot.PlotOptions): Panel {
  const { width = 340, height = 250 } = options;
  const { document: page } = parseHTML("<html><body></body></html>");
  // Plot's own format repeats the zeros of a tiny tick step: 75.750000.
  const formatTicks = (axis: Plot.ScaleOptions | undefined): Plot.ScaleOptions => ({
    tickFormat: (value: unknown) => (typeof value === "number" ? formatTick(value) : String(value)),
    ...axis,
  });
  const margins = { marginTop: 24, marginRight: 16, marginBottom: 38, marginLeft: 52 };
  const plot = Plot.plot({
    ...margins,
    ...options,
    x: formatTicks(options.x),
    y: formatTicks(options.y),
    width,
    height,
    document: page as unknown as NonNullable<Plot.PlotOptions["document"]>,
    style: { fontSize: "11px" },
  });
  // Plot's stylesheet needs a page, and its variables need a browser.
  plot.querySelector("style")?.remove();
  plot.removeAttribute("style");
  plot.setAttribute("font-size", String(sizes.text));
  plot.removeAttribute("font-family");
  return { title, width, height, content: roundSvgNumbers(plot.outerHTML) };
}

/** Creates an axis with one name at each position 0, 1, 2 and so on. */
export function createCategoryAxis(names: readonly string[]): Plot.ScaleOptions {
  return {
    type: "linear",
    domain: [-0.5, names.length - 0.5],
    ticks: names.map((_, i) => i),
    tickFormat: (i: number) => names[i] ?? "",
    label: null,
    tickSize: 0,
  };
}

/** Formats the number at a tick: six digits without trailing zeros, and separators of thousands. */
export function formatTick(value: number): string {
  return Number(value.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 12 });
}
