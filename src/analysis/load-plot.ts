/** Loads what draws a figure on demand, because it takes longer than starting most commands. */
export async function loadPlot() {
  const [Plot, { createCategoryAxis, plotPanel }] = await Promise.all([
    import("@observablehq/plot"),
    import("./plot-panel.js"),
  ]);
  return { Plot, createCategoryAxis, plotPanel };
}
