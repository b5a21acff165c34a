import { formatCommandLine } from "../../base/shell.js";
import { type Html, html } from "../html.js";
import type { ReportRun } from "../report-run.js";

/** Black-box attacks that need no resources of their own, the best proposal first. */
const proposedAttacks = ["pwws", "textfooler", "deepwordbug"];

/** The next steps with the last finished run of the report. */
export function renderNextSection(runs: readonly ReportRun[]): Html | null {
  const last = runs.findLast(({ results }) => results);
  if (!last) return null;
  const { folder } = last.run;
  const known = last.attacks.journals;
  const other = proposedAttacks.find((name) => !known.has(name));
  const steps: [string, string[] | undefined][] = [
    ["Look at the texts that fooled it", known.size > 0 ? ["show", folder] : undefined],
    [
      known.size > 0 ? "Try an attack that is not in this report" : "Attack it",
      other === undefined ? undefined : ["attack", folder, "--attack", other],
    ],
    ["Use it if that holds", ["serve", folder]],
  ];
  // Neither another attack nor a server makes sense for a model that has not learned its task.
  if (last.degeneracy !== null)
    return html`<p>Train longer or on more texts before anything else: <code>${folder}</code> is degenerate.</p>`;
  return html`<ul>${steps.map(
    ([what, words]) => words && html`<li>${what}: <code>${formatCommandLine(["temper", ...words])}</code></li>`,
  )}</ul>`;
}
