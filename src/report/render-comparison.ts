import { compareGroups } from "./comparison.js";
import { groupModels } from "./groups.js";
import { html } from "./html.js";
import type { ReportRun } from "./report-run.js";
import { renderComparisonSection, renderVerdict } from "./sections/comparison.js";
import { renderData } from "./sections/data.js";
import { renderOneSidedExamples, selectExamples } from "./sections/examples.js";

/**
 * Renders the comparison of models, task by task, with the texts that fool only some of them. The
 * studio shows this part of a report.
 */
export async function renderComparison(
  models: readonly { readonly name: string; readonly runs: readonly ReportRun[] }[],
): Promise<string> {
  const tasks = groupModels(models);
  const heading = "Texts that fool only some of the models";
  const parts = await Promise.all(
    tasks.map(async (task) => {
      const rows = compareGroups(task);
      const texts = renderOneSidedExamples(await selectExamples(task.groups));
      return html`
<section aria-label="${task.task}">${tasks.length > 1 && html`<h2>${task.task}</h2>`}
${renderVerdict(task, rows)}${renderComparisonSection(task, rows)}${renderData(task)}
${texts && html`${tasks.length > 1 ? html`<h3>${heading}</h3>` : html`<h2>${heading}</h2>`}${texts}`}</section>`;
    }),
  );
  return html`${parts}`.text;
}
