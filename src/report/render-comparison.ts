import { RunFolder } from "../runs/run-folder.js";
import { compareGroups } from "./comparison.js";
import { groupRuns } from "./groups.js";
import { html } from "./html.js";
import { readReportRun } from "./report-run.js";
import { renderComparisonSection, renderVerdict } from "./sections/comparison.js";
import { renderCurvesSection } from "./sections/curves.js";
import { renderData } from "./sections/data.js";
import { renderOneSidedExamples, selectExamples } from "./sections/examples.js";

/**
 * Renders the comparison of runs, task by task, as the studio shows it. If a task has a model of
 * this name, it is the baseline.
 */
export async function renderComparison(
  folders: readonly string[],
  baseline: string,
): Promise<{ readonly names: readonly string[]; readonly html: string }> {
  const runs = await Promise.all(folders.map(async (folder) => readReportRun(await RunFolder.open(folder))));
  const tasks = groupRuns(runs).map((task) => ({
    ...task,
    baseline: task.groups.find(({ name }) => name === baseline) ?? task.baseline,
  }));
  const parts = await Promise.all(
    tasks.map(async (task) => {
      const rows = compareGroups(task);
      const texts = renderOneSidedExamples(await selectExamples(task.groups));
      const curves = renderCurvesSection(task, true);
      return html`
<section aria-label="${task.task}"><h2>${task.task}</h2>
${renderVerdict(task, rows)}${renderComparisonSection(task, rows)}${renderData(task)}
${texts && html`<h3>Texts that fool only some of the models</h3>${texts}`}
${curves && html`<h3>Training</h3>${curves}`}</section>`;
    }),
  );
  const names = tasks.flatMap((task) => [task.baseline, ...task.groups.filter((group) => group !== task.baseline)]);
  return { names: [...new Set(names.map(({ name }) => name))], html: html`${parts}`.text };
}
