import { formatCount, formatDuration, formatPercent } from "../../format.js";
import { getMethodName } from "../../runs/names.js";
import { formatAttackCommand, formatTrainCommand } from "../commands.js";
import { type Html, html } from "../html.js";
import type { ReportRun } from "../read-run.js";

/** What was run: settings, commands and versions, so that it can be run again. */
export function renderRunsSection(runs: readonly ReportRun[]): Html {
  return html`${runs.map(renderRun)}`;
}

function renderRun(run: ReportRun): Html {
  const { folder, config, results, environment } = run;
  const facts: [string, string | null][] = [
    ["Model", `${config.model} (${formatHash(environment.model.hash)})`],
    ["Training texts", results && `${formatCount(results.trainExamples)} (${formatHash(environment.data.train)})`],
    [
      "Read as",
      `${config.tokenization === "word" ? "a token a word" : "subwords"}, at most ${formatCount(config.maxLength)} tokens`,
    ],
    [
      "Steps",
      results &&
        `${formatCount(results.steps)}${results.bestStep === results.steps ? "" : `, step ${formatCount(results.bestStep)} was kept`}`,
    ],
    ["Time of all updates", run.seconds > 0 ? formatDuration(1000 * run.seconds) : null],
    ["State", results ? null : run.failure === null ? "not finished" : `failed: ${run.failure}`],
    [
      "Computed on",
      `${environment.device}, ${environment.precision}, ${environment.threads === 1 ? "1 thread" : `${environment.threads} threads`}, ${environment.platform}`,
    ],
    [
      "Versions",
      `Temper ${environment.temper}${environment.commit ? ` (${environment.commit.slice(0, 12)}${environment.commit.endsWith("-dirty") ? ", changed" : ""})` : ""}, libtorch ${environment.libtorch}, Node.js ${environment.node.replace(/^v/, "")}`,
    ],
  ];
  const { journals, lastCommand: last } = run.attacks;
  const told = [...journals].filter(([name]) => !last?.attacks.includes(name));
  const commands = [
    formatTrainCommand(config, folder),
    ...told.map(([, { header, path }]) => formatAttackCommand(header, folder, path, config.substitutions)),
    ...(last ? [last.command] : []),
  ];
  return html`
<details class="run"><summary><b>${getMethodName(config)}</b>, seed ${config.seed} <span class="folder">${folder}</span></summary>
<dl>${facts.map(([name, value]) => value !== null && html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
<h4>Commands</h4><pre tabindex="0"><code>${commands.join("\n")}</code></pre>
${renderAttackTable(run)}
<details><summary>All settings</summary><pre tabindex="0"><code>${run.configText}</code></pre></details>
</details>`;
}

function renderAttackTable({ attacks: { journals } }: ReportRun): Html | null {
  if (journals.size === 0) return null;
  return html`
<h4>Attacks</h4><div class="scroll" role="region" aria-label="Attacks" tabindex="0"><table>
<caption class="heard">What each attack did and cost</caption>
<thead><tr>${["Attack", "Texts", "Fooled", "Words changed", "Queries a text", "Space a text", "Time"].map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
<tbody>${[...journals].map(([name, { header, results, summary, space }]) => {
    const done =
      results.length === header.examples
        ? formatCount(results.length)
        : `${formatCount(results.length)} of ${formatCount(header.examples)}`;
    return html`<tr><th scope="row">${name}</th><td>${done}</td><td>${formatPercent(summary.successRate)} of ${formatCount(summary.attacked)}</td><td>${formatPercent(summary.wordsChanged)}</td><td>${formatCount(summary.queries.mean)}</td><td>${space.combinations}</td><td>${summary.seconds > 0 ? formatDuration(1000 * summary.seconds) : "–"}</td></tr>`;
  })}</tbody></table></div>`;
}

function formatHash(hash: string): string {
  return `SHA-256 ${hash.slice(0, 12)}`;
}
