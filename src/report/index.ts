import { formatCount } from "../format.js";
import { selectExamples } from "./attacked-examples.js";
import { compareGroups } from "./comparison.js";
import { groupRuns, type TaskGroups } from "./groups.js";
import { type Html, html } from "./html.js";
import { renderPage, type Section } from "./page.js";
import { type ReportRun, readReportRuns } from "./read-run.js";
import { renderComparisonSection } from "./sections/comparison.js";
import { renderCurvesSection } from "./sections/curves.js";
import { renderExamplesSection } from "./sections/examples.js";
import { renderFiguresSection } from "./sections/figures.js";
import { renderRunsSection } from "./sections/runs.js";

/** What a report was made of. */
export interface Report {
  readonly html: string;
  readonly runs: number;
  readonly attacks: number;
  readonly examples: number;
  readonly figures: number;
}

/** Runs as one HTML file: nothing in it is loaded from elsewhere. */
export async function createReport(folders: readonly string[]): Promise<Report> {
  const runs = await readReportRuns(folders);
  const tasks = groupRuns(runs);
  const examples = await Promise.all(tasks.map(selectExamples));
  const perTask = (of: (task: TaskGroups, index: number) => Html | null): Html | null => {
    const parts = tasks
      .map((task, i) => ({ task: task.task, content: of(task, i) }))
      .filter(({ content }) => content !== null);
    if (parts.length === 0) return null;
    return html`${parts.map(({ task, content }) => html`<div>${tasks.length > 1 && html`<h3>${task}</h3>`}${content}</div>`)}`;
  };
  const sections: [string, string, Html | null][] = [
    ["comparison", "Comparison", perTask((task) => renderComparisonSection(task, compareGroups(task)))],
    ["flags", "Signs to look into", renderSanitySection(runs)],
    ["training", "Training", perTask(renderCurvesSection)],
    ["figures", "Figures", renderFiguresSection(runs)],
    ["examples", "Attacked texts", perTask((_, i) => renderExamplesSection(examples[i]!))],
    ["runs", "What was run", renderRunsSection(runs)],
  ];
  const names = tasks.map(({ task }) => task).join(", ");
  return {
    html: renderPage({
      title: `Temper: ${names}`,
      lead: formatLead(runs, tasks),
      sections: sections.flatMap(([id, title, content]): Section[] => (content ? [{ id, title, content }] : [])),
      footer: `Made by Temper ${runs[0]!.environment.temper}. Everything is in this one file; it loads nothing.`,
    }),
    runs: runs.length,
    attacks: runs.reduce((sum, { attacks }) => sum + attacks.journals.size, 0),
    examples: examples.flat().length,
    figures: runs.reduce((sum, { figures }) => sum + figures.length, 0),
  };
}

function formatLead(runs: readonly ReportRun[], tasks: readonly TaskGroups[]): string {
  const models = [...new Set(runs.map(({ config }) => config.model))].join(", ");
  const methods = [...new Set(tasks.flatMap(({ groups }) => groups.map(({ name }) => name)))].join(", ");
  return `${runs.length === 1 ? "A run" : `${formatCount(runs.length)} runs`} of ${models}: ${methods}.`;
}

/** Signs that the numbers may not mean what they seem to; that there are none is worth saying too. */
function renderSanitySection(runs: readonly ReportRun[]): Html | null {
  const attacked = runs.filter(({ attacks }) => attacks.journals.size > 0);
  if (attacked.length === 0) return null;
  const flags = attacked.flatMap(({ folder, attacks }) =>
    attacks.flags.map((flag) => html`<li><b>${folder}</b>: ${flag.message}</li>`),
  );
  const unchecked = attacked.filter(({ attacks }) => attacks.combined === null);
  return html`
${flags.length > 0 ? html`<ul class="flags">${flags}</ul>` : html`<p>Label order, dropout, attack strength, substitutes and encoding were checked; nothing looks odd.</p>`}
${unchecked.map(({ folder }) => html`<p class="note">${folder}: its attacks saw different texts, so they were not checked together.</p>`)}`;
}
