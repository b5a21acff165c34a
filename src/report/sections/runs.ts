import { formatAttackCommands } from "../../actions/attack/format-attack-commands.js";
import { formatTrainCommand } from "../../actions/train/format-train-command.js";
import { formatCount, formatDuration, formatPercent } from "../../base/format.js";
import type { AttackFolder } from "../../runs/attack-folder.js";
import type { Environment } from "../../runs/environment.js";
import { type Html, html } from "../html.js";
import type { ReportRun } from "../report-run.js";

/** Shows the settings, commands and versions of each run, so that it can be repeated. */
export function renderRunsSection(runs: readonly ReportRun[]): Html {
  return html`${runs.map(renderRun)}`;
}

function renderRun(each: ReportRun): Html {
  const { run, results, environment, attacks } = each;
  const { config, folder } = run;
  const facts: [string, string | null][] = [
    ["Model", `${config.model} (${formatHash(environment.model.hash)})`],
    ["Training texts", results && `${formatCount(results.trainExamples)} (${formatHash(environment.data.train)})`],
    ["Tokenization", `${config.tokenization}, at most ${formatCount(config.maxLength)} tokens`],
    ["Steps", results && formatSteps(results)],
    ["Time of all steps", each.seconds > 0 ? formatDuration(1000 * each.seconds) : null],
    ["State", results ? null : each.failure === null ? "not finished" : `failed: ${each.failure}`],
    ["Runtime", formatRuntime(environment)],
    ["Versions", formatVersions(environment)],
  ];
  const commands = [formatTrainCommand(run), ...formatAttackCommands(run, attacks)];
  return html`
<details class="run"><summary><b>${run.method}</b>, seed ${config.seed} <span class="folder">${folder}</span></summary>
<dl>${facts.map(([name, value]) => value !== null && html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
<h3>Commands</h3><pre tabindex="0"><code>${commands.join("\n")}</code></pre>
${renderAttackTable(attacks)}
<details><summary>All settings</summary><pre tabindex="0"><code>${each.configText}</code></pre></details>
</details>`;
}

function formatSteps({ steps, bestStep }: NonNullable<ReportRun["results"]>): string {
  return `${formatCount(steps)}${bestStep === steps ? "" : `; step ${formatCount(bestStep)} was kept`}`;
}

function formatRuntime({ device, precision, threads, platform }: Environment): string {
  return `${device}, ${precision}, ${threads === 1 ? "1 thread" : `${threads} threads`}, ${platform}`;
}

function formatVersions({ temper, commit, libtorch, node }: Environment): string {
  const revision = commit && ` (${commit.slice(0, 12)}${commit.endsWith("-dirty") ? ", modified" : ""})`;
  return `Temper ${temper}${revision ?? ""}, libtorch ${libtorch}, Node.js ${node.replace(/^v/, "")}`;
}

/** The effect and the cost of each attack of a folder. */
export function renderAttackTable({ journals }: AttackFolder): Html | null {
  if (journals.size === 0) return null;
  const headers = ["Attack", "Texts", "Fooled", "Words changed", "Queries per text", "Candidates per text", "Time"];
  const rows = [...journals].map(([name, { finished, header, results, summary, space }]) => {
    const texts = formatCount(results.length) + (finished ? "" : ` of ${formatCount(header.examples)}`);
    return html`<tr><th scope="row">${name}</th>${[
      texts,
      `${formatPercent(summary.successRate)} of ${formatCount(summary.attacked)}`,
      formatPercent(summary.wordsChanged),
      formatCount(summary.queries.mean),
      space.combinations,
      summary.seconds > 0 ? formatDuration(1000 * summary.seconds) : "–",
    ].map((value) => html`<td>${value}</td>`)}</tr>`;
  });
  return html`
<h3>Attacks</h3><div class="scroll" role="region" aria-label="Attacks" tabindex="0"><table>
<caption class="sr-only">Effect and cost of each attack</caption>
<thead><tr>${headers.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
<tbody>${rows}</tbody></table></div>`;
}

function formatHash(hash: string): string {
  return `SHA-256 ${hash.slice(0, 12)}`;
}
