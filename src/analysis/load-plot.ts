/**
 * Loads what draws a figure. It takes longer than starting most commands, and a sweep or a studio
 * that only reads the requests of analyses does not need it.
 */
export async function loadPlot() {
  const [Plot, { createCategoryAxis, plotPanel }] = await Promise.all([
    import("@observablehq/plot"),
    import("./plot-panel.js"),
  ]);
  return { Plot, createCategoryAxis, plotPanel };
}
