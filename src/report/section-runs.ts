import { formatCount, formatDuration, formatShare } from "../format.js";
import { methodName } from "../runs/names.js";
import { attackCommand, trainCommand } from "./commands.js";
import { type Html, html } from "./html.js";
import type { ReportRun } from "./read-run.js";

/** What was run: settings, commands and versions, so that it can be run again. */
export function runsSection(runs: readonly ReportRun[]): Html {
  return html`${runs.map(runDetails)}`;
}

function runDetails(run: ReportRun): Html {
  const { folder, config, results, environment: machine } = run;
  const facts: [string, string | null][] = [
    ["Model", `${config.model} (${short(machine.model.hash)})`],
    ["Training texts", results && `${formatCount(results.trainExamples)} (${short(machine.data.train)})`],
    ["Read as", `${config.encoding === "word" ? "a token a word" : "subwords"}, at most ${formatCount(config.maxLength)} tokens`],
    [
      "Steps",
      results &&
        `${formatCount(results.steps)}${results.chosenStep === results.steps ? "" : `, step ${formatCount(results.chosenStep)} was kept`}`,
    ],
    ["Time of all updates", run.seconds > 0 ? formatDuration(1000 * run.seconds) : null],
    ["State", results ? null : run.failure === null ? "not finished" : `failed: ${run.failure}`],
    [
      "Computed on",
      `${machine.device}, ${machine.precision}, ${machine.threads === 1 ? "1 thread" : `${machine.threads} threads`}, ${machine.platform}`,
    ],
    [
      "Versions",
      `Temper ${machine.temper}${machine.commit ? ` (${machine.commit.slice(0, 12)}${machine.commit.endsWith("-dirty") ? ", changed" : ""})` : ""}, libtorch ${machine.libtorch}, Node.js ${machine.node.replace(/^v/, "")}`,
    ],
  ];
  const { journals, last } = run.attacks;
  const told = [...journals].filter(([name]) => !last?.attacks.includes(name));
  const commands = [
    trainCommand(config, folder),
    ...told.map(([, { header, path }]) => attackCommand(header, folder, path, config.substitutions)),
    ...(last ? [last.command] : []),
  ];
  return html`
<details class="run"><summary><b>${methodName(config)}</b>, seed ${config.seed} <span class="folder">${folder}</span></summary>
<dl>${facts.map(([name, value]) => value !== null && html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
<h4>Commands</h4><pre tabindex="0"><code>${commands.join("\n")}</code></pre>
${attackFacts(run)}
<details><summary>All settings</summary><pre tabindex="0"><code>${run.configText}</code></pre></details>
</details>`;
}

function attackFacts({ attacks: { journals } }: ReportRun): Html | null {
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
    return html`<tr><th scope="row">${name}</th><td>${done}</td><td>${formatShare(summary.successRate)} of ${formatCount(summary.attacked)}</td><td>${formatShare(summary.wordsChanged)}</td><td>${formatCount(summary.queries.mean)}</td><td>${space.combinations}</td><td>${summary.seconds > 0 ? formatDuration(1000 * summary.seconds) : "–"}</td></tr>`;
  })}</tbody></table></div>`;
}

function short(hash: string): string {
  return `SHA-256 ${hash.slice(0, 12)}`;
}
