import { formatAttackCommands } from "../../actions/attack/format-attack-commands.js";
import { formatTrainCommand } from "../../actions/train/format-train-command.js";
import { formatCount, formatDuration } from "../../base/format.js";
import { mainAttackNumbers, tabulateAttacks } from "../../evaluation/attack-numbers.js";
import { findAttackedLabel } from "../../evaluation/attack-summary.js";
import type { AttackFolder } from "../../runs/attack-folder.js";
import type { Environment } from "../../runs/environment.js";
import { type Html, html, renderFacts, renderTable } from "../html.js";
import type { ReportRun } from "../report-run.js";

export function renderRunsSection(runs: readonly ReportRun[]): Html {
  return html`${runs.map(renderRun)}`;
}

export function listFacts(each: ReportRun): [string, string | null][] {
  const { run, results, environment } = each;
  const { config } = run;
  return [
    ["Model", `${config.model} (${formatHash(environment.model.hash)})`],
    ["Training texts", results && `${formatCount(results.trainExamples)} (${formatHash(environment.data.train)})`],
    ["Tokenization", `${config.tokenization}, at most ${formatCount(config.maxLength)} tokens`],
    ["Steps", results && formatSteps(results)],
    ["Time of all steps", each.seconds > 0 ? formatDuration(1000 * each.seconds) : null],
    ["State", results ? null : each.failure === null ? "not finished" : `failed: ${each.failure}`],
    ["Runtime", formatRuntime(environment)],
    ["Versions", formatVersions(environment)],
  ];
}

function renderRun(each: ReportRun): Html {
  const { run, attacks } = each;
  const commands = [formatTrainCommand(run), ...formatAttackCommands(run, attacks)];
  return html`
<details class="run">
<summary><b>${run.method}</b>, seed ${run.config.seed} <span class="folder">${run.folder}</span></summary>
${renderFacts(listFacts(each))}
<h3>Commands</h3><pre tabindex="0"><code>${commands.join("\n")}</code></pre>
${renderAttackTable(attacks, each.labels)}
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

/** The effect and the cost of each attack of a folder, each over its own texts. */
export function renderAttackTable({ journals }: AttackFolder, labels: readonly string[]): Html | null {
  if (journals.size === 0) return null;
  const attacks = [...journals.values()].map(({ results, summary }) => {
    const correct = results.filter(({ outcome }) => outcome !== "skipped").length;
    return { summary, labels, examples: results.length, clean: correct / results.length };
  });
  const numbers = tabulateAttacks(attacks, findAttackedLabel(journals.values()), mainAttackNumbers);
  const head = ["attack", "texts", ...numbers.map(({ title }) => title.trim()), "candidates per text"];
  const rows = [...journals].map(([name, { finished, header, results, space }], i) => [
    name,
    formatCount(results.length) + (finished ? "" : ` of ${formatCount(header.examples)}`),
    ...numbers.map(({ cells }) => cells[i]!),
    space.combinations,
  ]);
  return html`<h3>Attacks</h3>${renderTable("Effect and cost of each attack", head, rows)}`;
}

function formatHash(hash: string): string {
  return `SHA-256 ${hash.slice(0, 12)}`;
}
