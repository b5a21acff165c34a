import type { AttackOutcome } from "../../attacks/result.js";
import { formatCount, formatPercent } from "../../format.js";
import type { AttackedExample, ModelAttackResult } from "../attacked-examples.js";
import { renderChangedText, renderOriginalText } from "../diff.js";
import { type Html, html } from "../html.js";

const outcomeLabels: Readonly<Record<AttackOutcome, { readonly badge: string; readonly filter: string }>> = {
  success: { badge: "fooled", filter: "some model fooled" },
  failed: { badge: "held", filter: "some model held" },
  skipped: { badge: "wrong before", filter: "some model wrong before any change" },
};

/** Attacked texts: the original above, what the attack made of it for each model below. */
export function renderExamplesSection(examples: readonly AttackedExample[]): Html | null {
  if (examples.length === 0) return null;
  const attacks = [...new Set(examples.map(({ attack }) => attack))];
  const choices: readonly [string, string][] = [
    ["", "all"],
    ...(examples.some(hasDifferentOutcomes) ? [["differ", "models differ"] as [string, string]] : []),
    ...(Object.keys(outcomeLabels) as AttackOutcome[]).map((name): [string, string] => [
      name,
      outcomeLabels[name].filter,
    ]),
  ];
  // Without the script every example is shown, and the controls are not.
  return html`
<form class="filters" hidden>
<fieldset><legend>Show</legend>${choices.map(([value, text], i) => html`<label><input type="radio" name="outcome" value="${value}"${i === 0 && html` checked`}> ${text}</label>`)}</fieldset>
${attacks.length > 1 && html`<label>Attack <select name="attack"><option value="">all</option>${attacks.map((name) => html`<option>${name}</option>`)}</select></label>`}
<output aria-live="polite"></output>
</form>
<div class="cards">${examples.map(renderCard)}</div>`;
}

function hasDifferentOutcomes({ versions }: AttackedExample): boolean {
  return new Set(versions.map(({ result }) => result.outcome)).size > 1;
}

function renderCard(example: AttackedExample): Html {
  const { attack, id, versions } = example;
  const first = versions[0]!;
  const changed = new Set(versions.flatMap(({ result }) => result.edits.map(({ position }) => position)));
  const kinds = [
    ...new Set(versions.map(({ result }) => result.outcome)),
    ...(hasDifferentOutcomes(example) ? ["differ"] : []),
  ];
  return html`
<article class="example" data-kinds="${kinds.join(" ")}" data-attack="${attack}">
<header><h4>${id}</h4><span>labelled <b>${getLabel(first, first.result.label)}</b>, attacked by ${attack}</span></header>
<div class="original"><h5>Original</h5>${renderOriginalText(first.result, changed)}</div>
<div class="versions">${versions.map(renderModelResult)}</div>
</article>`;
}

function renderModelResult(version: ModelAttackResult): Html {
  const { group, result } = version;
  const { outcome, edits, queries } = result;
  const words = edits.length === 1 ? "1 word changed" : `${edits.length} words changed`;
  return html`
<section class="version ${outcome}">
<h5>${group.name} <span class="badge">${outcomeLabels[outcome].badge}</span></h5>
${renderProbabilities(version)}
${edits.length > 0 ? html`${renderChangedText(result)}` : html`<p class="note">${outcome === "skipped" ? "Wrong without any change, so there was nothing to attack." : "No change of words came closer."}</p>`}
${outcome !== "skipped" && html`<p class="note">${edits.length > 0 && `${words}${outcome === "failed" ? " in the closest attempt" : ""}, `}${formatCount(queries)} ${queries === 1 ? "query" : "queries"}</p>`}
</section>`;
}

/** How sure the model was of each class, before and after. */
function renderProbabilities(version: ModelAttackResult): Html {
  const { result } = version;
  const { before, after, outcome } = result;
  const moved = outcome !== "skipped";
  const value = (probability: number): Html =>
    html`<td><span class="bar" style="--share:${probability.toFixed(4)}" aria-hidden="true"></span>${formatPercent(probability)}</td>`;
  return html`
<table class="probabilities"><caption class="heard">Probabilities</caption>
<thead><tr><th scope="col">class</th><th scope="col">before</th>${moved && html`<th scope="col">after</th>`}</tr></thead>
<tbody>${before.map((probability, i) => html`<tr${i === result.label && html` class="gold"`}><th scope="row">${getLabel(version, i)}</th>${value(probability)}${moved && value(after[i]!)}</tr>`)}</tbody></table>`;
}

function getLabel({ labels }: ModelAttackResult, index: number): string {
  return labels[index] ?? `class ${index}`;
}
