import { exists } from "../base/files.js";
import { formatCount, formatInterval, formatPercent } from "../base/format.js";
import { type AttackFolder, listAttackWarnings, readAttackFolder } from "../runs/attack-folder.js";
import { readPackageVersion } from "../runs/environment.js";
import { getRunPath } from "../runs/run-files.js";
import { type Html, html } from "./html.js";
import { type Report, renderPage } from "./page.js";
import { renderExamplesSection, selectExamples } from "./sections/examples.js";
import { renderAttackTable } from "./sections/runs.js";

/** The folders if all of them have journals of a model that is no run, such as a function. */
export async function readAttackFolders(folders: readonly string[]): Promise<AttackFolder[] | null> {
  const found: AttackFolder[] = [];
  for (const folder of folders) {
    if (await exists(getRunPath(folder, "config"))) return null;
    const attacks = await readAttackFolder(folder);
    if (!attacks.report) return null;
    found.push(attacks);
  }
  return found;
}

export async function createAttackReport(folders: readonly AttackFolder[], title: string | null): Promise<Report> {
  const models = folders.map((attacks) => {
    const { labels, request } = attacks.report!;
    return { name: String(request.model), runs: [{ labels, attacks }] };
  });
  const examples = await selectExamples(models);
  const content = renderExamplesSection(examples, models);
  const tasks = [...new Set(folders.map(({ report }) => report!.task))].join(", ");
  return {
    html: renderPage({
      title: title ?? `Temper: ${tasks}`,
      lead: html`<p class="lead">Attacks on ${models.map(({ name }) => name).join(", ")}.</p>`,
      sections: [
        { id: "attacks", title: "Attacks", content: html`${folders.map(renderFolder)}` },
        ...(content ? [{ id: "examples", title: "Attacked texts", content }] : []),
      ],
      footer: `Created by Temper ${readPackageVersion()}. This file is self-contained and loads nothing.`,
    }),
    runs: 0,
    attacks: folders.reduce((sum, { journals }) => sum + journals.size, 0),
    examples: examples.length,
    figures: 0,
  };
}

function renderFolder(attacks: AttackFolder): Html {
  const { request, task, split, labels } = attacks.report!;
  const warnings = listAttackWarnings(attacks, { labels });
  return html`
<h3>${String(request.model)}</h3>
<p>Texts of ${task}, ${split}. ${describeSummary(attacks)}</p>
${warnings.length > 0 && html`<ul class="warnings">${warnings.map(({ message }) => html`<li>${message}</li>`)}</ul>`}
${renderAttackTable(attacks, labels)}`;
}

function describeSummary({ summary }: AttackFolder): string {
  if (!summary) return "The attacks saw different texts.";
  const { examples, clean, worstCase, worstCaseInterval } = summary;
  const { low, high } = worstCaseInterval;
  return (
    `${formatCount(examples)} texts: accuracy ${formatPercent(clean)} before and ${formatPercent(worstCase)} under all ` +
    `attacks (95% CI ${formatInterval(low, high)}).`
  );
}
