import { mkdir } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { createFileError, exists, readText, writeFileAtomic } from "../base/files.js";
import { formatCount } from "../base/format.js";
import { orNull, validate } from "../base/validate.js";
import { RunFolder } from "../runs/run-folder.js";
import { createAttackReport, readAttackFolders } from "./attack-report.js";
import { compareGroups } from "./comparison.js";
import { groupRuns, type TaskGroups } from "./groups.js";
import { type Html, html } from "./html.js";
import { generator, type Report, renderPage, type Section } from "./page.js";
import { type ReportRun, readReportRun } from "./report-run.js";
import { renderCertificatesSection } from "./sections/certificates.js";
import { renderComparisonSection, renderVerdict } from "./sections/comparison.js";
import { renderCurvesSection } from "./sections/curves.js";
import { renderData } from "./sections/data.js";
import { renderExactSection } from "./sections/exact.js";
import { renderExamplesSection, selectExamples } from "./sections/examples.js";
import { renderFiguresSection } from "./sections/figures.js";
import { renderNextSection } from "./sections/next.js";
import { renderRunsSection } from "./sections/runs.js";

export const reportRequestSchema = z.strictObject({
  runs: z
    .array(z.string())
    .min(1, { error: "expected one or more runs" })
    .describe("run folders, folders of runs, or folders of attacks on other models"),
  out: z
    .string()
    .regex(/\.html?$/i, { error: "expected the name of an HTML file (report.html)" })
    .default("report.html")
    .describe("HTML file to write"),
  title: orNull(z.string(), "the tasks").describe("title of the page"),
});
export type ReportRequest = z.input<typeof reportRequestSchema>;

/** The caller's knowledge about the runs, which their folders do not have. */
export interface KnownFacts {
  /** The finding and the next thing to do, in at most three sentences. */
  readonly verdict?: string | null;
  /** The data as the person named it. The runs may read a copy. */
  readonly source?: string | null;
}

export interface ReportResult extends Omit<Report, "html"> {
  readonly path: string;
  readonly bytes: number;
}

/**
 * Writes one self-contained HTML file about runs.
 *
 *     const { path } = await report({ runs: ["runs/standard", "runs/ascc"] });
 */
export async function report(request: ReportRequest, known: KnownFacts = {}): Promise<ReportResult> {
  const { runs, out, title } = validate(reportRequestSchema, request, "report");
  await checkReplaceable(out);
  const { html: text, ...counts } = await createReport(runs, title, known);
  await mkdir(dirname(resolve(out)), { recursive: true }).catch((error: unknown) => {
    throw createFileError(error, out, "write");
  });
  await writeFileAtomic(out, text);
  return { path: out, bytes: Buffer.byteLength(text), ...counts };
}

/** A report replaces only an earlier report. Another page of this name stays. */
async function checkReplaceable(out: string): Promise<void> {
  if (!(await exists(out)) || (await readText(out, "the earlier report")).includes(generator)) return;
  throw new UserError(`${out} already exists and is not a report. Choose a different --out, or move it away.`);
}

/**
 * Creates the HTML page about the runs at or below the folders, or about attacks on other models.
 * The page loads nothing from elsewhere.
 */
export async function createReport(
  folders: readonly string[],
  title: string | null = null,
  { verdict = null, source = null }: KnownFacts = {},
): Promise<Report> {
  const attacked = await readAttackFolders(folders);
  if (attacked) return createAttackReport(attacked, title);
  const runs = await Promise.all((await RunFolder.find(folders)).map(readReportRun));
  const tasks = groupRuns(runs);
  const compared = new Map(tasks.map((task) => [task, compareGroups(task)]));
  const examples = await Promise.all(tasks.map(({ groups }) => selectExamples(groups)));
  const renderPerTask = (render: (task: TaskGroups<ReportRun>, index: number) => Html | null): Html | null => {
    const parts = tasks.flatMap((task, i) => {
      const content = render(task, i);
      return content ? [html`<div>${tasks.length > 1 && html`<h3>${task.task}</h3>`}${content}</div>`] : [];
    });
    return parts.length > 0 ? html`${parts}` : null;
  };
  const sections: [string, string, Html | null][] = [
    ["comparison", "Comparison", renderPerTask((task) => renderComparisonSection(task, compared.get(task)!))],
    ["sanity", "Sanity checks", renderSanitySection(runs)],
    ["next", "Next", renderNextSection(runs)],
    [
      "data",
      "Data",
      html`<p class="lead">${formatLead(runs, tasks)}</p>${tasks.map((task) => renderData(task, source))}`,
    ],
    ["exact", "Exact accuracy", renderExactSection(runs)],
    ["certificates", "Certificates", renderCertificatesSection(runs)],
    ["training", "Training", renderPerTask((task) => renderCurvesSection(task))],
    ["figures", "Figures", renderFiguresSection(runs)],
    ["examples", "Attacked texts", renderPerTask((task, i) => renderExamplesSection(examples[i]!, task.groups))],
    ["runs", "Runs", renderRunsSection(runs)],
  ];
  return {
    html: renderPage({
      title: title ?? `Temper: ${tasks.map(({ task }) => task).join(", ")}`,
      lead: html`${renderPerTask((task) => renderVerdict(task, compared.get(task)!, verdict))}`,
      sections: sections.flatMap(([id, heading, content]): Section[] =>
        content ? [{ id, title: heading, content, isFolded: foldedSections.has(id) }] : [],
      ),
      footer: `Created by Temper ${runs[0]!.environment.temper}. This file is self-contained and loads nothing.`,
    }),
    runs: runs.length,
    attacks: runs.reduce((sum, { attacks }) => sum + attacks.journals.size, 0),
    examples: examples.flat().length,
    figures: runs.reduce((sum, { figures }) => sum + figures.length, 0),
  };
}

/** Sections that few readers need are folded. */
const foldedSections: ReadonlySet<string> = new Set(["training", "figures", "runs"]);

function formatLead(runs: readonly ReportRun[], tasks: readonly TaskGroups<ReportRun>[]): string {
  const models = [...new Set(runs.map(({ run }) => run.config.model))].join(", ");
  const methods = [...new Set(tasks.flatMap(({ groups }) => groups.map(({ name }) => name)))].join(", ");
  return `${runs.length === 1 ? "One run" : `${formatCount(runs.length)} runs`} of ${models}: ${methods}.`;
}

const noWarnings =
  "Label order, dropout, attack strength, substitutions and tokenization were checked. No problems were found.";

/** Shows signs that numbers are misleading. It also says that there are none. */
function renderSanitySection(runs: readonly ReportRun[]): Html | null {
  const attacked = runs.filter(({ attacks }) => attacks.journals.size > 0);
  if (attacked.length === 0) return null;
  const warnings = attacked.flatMap((each) =>
    each.warnings.map((message) => html`<li><b>${each.run.folder}</b>: ${message}</li>`),
  );
  const notes = attacked.flatMap(({ run, attacks: { journals, summary } }) => [
    ...(summary ? [] : [`${run.folder}: its attacks used different texts, so they were not checked together.`]),
    ...[...journals]
      .filter(([, { finished }]) => !finished)
      .map(([name]) => `${run.folder}: ${name} is not finished, so it is not part of the comparison.`),
  ]);
  return html`
${warnings.length > 0 ? html`<ul class="warnings">${warnings}</ul>` : html`<p>${noWarnings}</p>`}
${notes.map((note) => html`<p class="note">${note}</p>`)}`;
}
