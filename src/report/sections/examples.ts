import { readJournal } from "../../attacks/journal.js";
import type { AttackOutcome, AttackResult } from "../../attacks/result.js";
import { formatCount, formatPercent } from "../../base/format.js";
import type { JournalSummary } from "../../evaluation/attack-summary.js";
import { outcomeTitles } from "../../evaluation/outcomes.js";
import { listReplaced, renderChangedText, renderOriginalText } from "../diff.js";
import { type Html, html, renderBar } from "../html.js";
import type { ReportRun } from "../report-run.js";

/** A model under attack: runs that differ in their seed, or a folder of journals. */
interface ShownModel {
  readonly name: string;
  readonly runs: readonly Pick<ReportRun, "labels" | "attacks">[];
}

interface ShownResult {
  readonly group: Pick<ShownModel, "name">;
  readonly labels: readonly string[];
  readonly result: AttackResult;
}

export interface ShownExample {
  readonly attack: string;
  readonly id: string;
  readonly versions: readonly ShownResult[];
}

/**
 * The number of examples of each kind that the report shows per attack. In "differ", the outcomes
 * of the models differ.
 */
const maxExamplesPerKind = { differ: 16, success: 8, failed: 8, skipped: 4 } as const;
type ExampleKind = keyof typeof maxExamplesPerKind;
const maxGroups = 6;

/**
 * Selects some attacked examples. Journals can be larger than memory, so only the texts of these
 * are kept.
 */
export async function selectExamples(groups: readonly ShownModel[]): Promise<ShownExample[]> {
  const attacks = new Set(groups.flatMap(({ runs: [run] }) => [...(run?.attacks.journals.keys() ?? [])]));
  const selected: ShownExample[] = [];
  for (const attack of attacks) {
    const attacked = groups
      .flatMap((group) => {
        const [run] = group.runs;
        const journal = run?.attacks.journals.get(attack);
        return run && journal ? [{ group, labels: run.labels, journal }] : [];
      })
      .slice(0, maxGroups);
    const ids = selectExampleIds(attacked.map(({ journal }) => journal));
    const versions = new Map<string, ShownResult[]>(ids.map((id) => [id, []]));
    for (const { group, labels, journal } of attacked) {
      for await (const { result } of readJournal(journal.path))
        versions.get(result.id)?.push({ group, labels, result });
    }
    selected.push(...[...versions].map(([id, all]) => ({ attack, id, versions: all })));
  }
  return selected;
}

/** Selects examples of every kind, starting with those on which the models differ. */
function selectExampleIds(journals: readonly JournalSummary[]): string[] {
  const outcomes = new Map<string, Set<AttackOutcome>>();
  for (const { results } of journals)
    for (const { id, outcome } of results) outcomes.set(id, (outcomes.get(id) ?? new Set()).add(outcome));
  const kinds: Record<ExampleKind, string[]> = { differ: [], success: [], failed: [], skipped: [] };
  for (const [id, found] of outcomes) kinds[found.size > 1 ? "differ" : ([...found][0] as ExampleKind)].push(id);
  // An example that fools only some models says more than one that was misclassified before the
  // attack.
  const rank = (id: string): number => Number(outcomes.get(id)!.has("success") && outcomes.get(id)!.has("failed"));
  kinds.differ.sort((a, b) => rank(b) - rank(a));
  return (Object.keys(maxExamplesPerKind) as ExampleKind[]).flatMap((kind) =>
    kinds[kind].slice(0, maxExamplesPerKind[kind]),
  );
}

/** Shows only the texts that fool some models and not the others. */
export function renderOneSidedExamples(examples: readonly ShownExample[]): Html | null {
  const found = examples.filter(({ versions }) => {
    const outcomes = versions.map(({ result }) => result.outcome);
    return outcomes.includes("success") && outcomes.includes("failed");
  });
  return found.length > 0 ? renderCards(found) : null;
}

const outcomeFilters: Readonly<Record<string, string>> = {
  success: "a model was fooled",
  failed: "a model was robust",
  skipped: "a model misclassified it before the attack",
};

/**
 * Shows attacked texts: the original, and below it the result of the attack for each model. The
 * texts are chosen, so they must not be counted. Without the script, the controls are hidden.
 */
export function renderExamplesSection(examples: readonly ShownExample[], models: readonly ShownModel[]): Html | null {
  if (examples.length === 0) return null;
  const attacks = [...new Set(examples.map(({ attack }) => attack))];
  const filters = { ...(models.length > 1 && { differ: "models differ" }), ...outcomeFilters };
  return html`
<p class="note">A selection of ${formatCount(examples.length)} of ${formatCount(countAttacked(models))} attacked texts:
those on which the models differ come first, so their outcomes are not the rates above.</p>
<form class="filters" hidden>
${renderSelect("Show", "outcome", filters)}
${renderSelect("Attack", "attack", Object.fromEntries(attacks.map((name) => [name, name])))}
<output aria-live="polite"></output>
</form>
${renderCards(examples)}`;
}

function renderSelect(title: string, name: string, options: Readonly<Record<string, string>>): Html {
  const rest = Object.entries(options).map(([value, text]) => html`<option value="${value}">${text}</option>`);
  return html`<label>${title} <select name="${name}"><option value="">all</option>${rest}</select></label>`;
}

const openCards = 2;

/** Shows examples as cards, of which the first ones are open. */
export function renderCards(examples: readonly ShownExample[]): Html {
  return html`<div class="cards">${examples.map((example, i) => renderExample(example, i < openCards))}</div>`;
}

/** The texts of all attacks, as the first seed of a model saw them. */
function countAttacked(models: readonly ShownModel[]): number {
  const journals = models.flatMap(({ runs: [run] }) => [...(run?.attacks.journals ?? [])]);
  const counts = new Map(journals.map(([name, { results }]) => [name, results.length]));
  return [...counts.values()].reduce((sum, count) => sum + count, 0);
}

function renderExample(example: ShownExample, isOpen: boolean): Html {
  const { attack, id, versions } = example;
  const first = versions[0]!;
  const replaced = listReplaced(versions.map(({ result }) => result));
  const found = [...new Set(versions.map(({ result }) => result.outcome))];
  const kinds = found.length > 1 ? [...found, "differ"] : found;
  const facts = html`<small>labeled <b>${getLabel(first, first.result.label)}</b>, attacked by ${attack}</small>`;
  const outcomes = versions.map(
    ({ group, result }) => html`
<small>${versions.length > 1 && `${group.name} `}${renderBadge(result.outcome)}</small>`,
  );
  return html`
<article class="example" data-kinds="${kinds.join(" ")}" data-attack="${attack}">
<details${isOpen && html` open`}><summary><h3>${id}</h3> ${facts} ${outcomes}</summary>
<div class="original"><h4>Original</h4>${renderOriginalText(first.result, replaced)}</div>
<div class="versions">${versions.map(renderModelResult)}</div>
</details></article>`;
}

function renderBadge(outcome: AttackOutcome): Html {
  return html`<span class="badge ${outcome}">${outcomeTitles[outcome]}</span>`;
}

export function renderModelResult(version: ShownResult): Html {
  const { group, result } = version;
  const { outcome, edits, queries } = result;
  const words = `${edits.length} ${edits.length === 1 ? "word" : "words"} changed`;
  const attempt = outcome === "failed" ? " in the best attempt" : "";
  const cost = `${formatCount(queries)} ${queries === 1 ? "query" : "queries"}`;
  const unchanged =
    outcome === "skipped"
      ? "Misclassified without any change, so it was not attacked."
      : "No substitution lowered the confidence.";
  return html`
<section class="version ${outcome}">
<h4>${group.name} ${renderBadge(outcome)}</h4>
${renderProbabilities(version)}
${edits.length > 0 ? renderChangedText(result) : html`<p class="note">${unchanged}</p>`}
${outcome !== "skipped" && html`<p class="note">${edits.length > 0 && `${words}${attempt}, `}${cost}</p>`}
</section>`;
}

function renderProbabilities(version: ShownResult): Html {
  const { before, after, outcome, label } = version.result;
  const wasAttacked = outcome !== "skipped";
  const renderValue = (probability: number): Html =>
    html`<td>${renderBar(probability)}${formatPercent(probability)}</td>`;
  const rows = before.map((probability, i) => {
    const cells = [probability, ...(wasAttacked ? [after[i]!] : [])].map(renderValue);
    return html`<tr${i === label && html` class="gold"`}><th scope="row">${getLabel(version, i)}</th>${cells}</tr>`;
  });
  const headers = ["class", "before", ...(wasAttacked ? ["after"] : [])];
  return html`
<table class="probabilities"><caption class="sr-only">Probabilities</caption>
<thead><tr>${headers.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
<tbody>${rows}</tbody></table>`;
}

function getLabel({ labels }: ShownResult, index: number): string {
  return labels[index] ?? `class ${index}`;
}
