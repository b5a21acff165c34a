import { formatCount, formatInterval, formatPercent, formatPoints, formatPValue } from "../base/format.js";
import { isAttackMetric } from "../evaluation/metric-table.js";
import { worstCaseId } from "../evaluation/worst-case.js";
import { selectMainMetric } from "./accuracy-chart.js";
import type { ComparedMetric, ComparisonRow } from "./comparison.js";

/**
 * Says in one or two sentences what a comparison found: the best of the models against the baseline
 * under attack, and what it costs without one.
 */
export function describeComparison(rows: readonly ComparisonRow[], baselineName: string): string {
  const main = selectMainMetric(rows);
  if (main === null) return "No model was attacked yet, so nothing is known about its robustness.";
  const attack = main === worstCaseId ? "all attacks" : main;
  const baseline = rows.find(({ group }) => group.name === baselineName)!;
  const others = rows.filter(({ metrics }) => metrics.get(main)?.comparison);
  const sound = others.filter(({ degeneracy }) => degeneracy === null);
  const [best] = sound.toSorted((a, b) => b.metrics.get(main)!.value - a.metrics.get(main)!.value);
  if (baseline.degeneracy !== null || (others.length > 0 && !best)) {
    const { group, degeneracy } = baseline.degeneracy === null ? others[0]! : baseline;
    return `No conclusion: ${group.name} is degenerate (${degeneracy}).`;
  }
  if (!best) return describeSingle(rows, main, attack);
  const [under, reference] = [best.metrics.get(main)!, baseline.metrics.get(main)!];
  const texts = formatTexts(under);
  const names = { model: best.group.name, baseline: baselineName };
  return `Under ${attack}, ${describePair(under, reference, texts, names)}. ${describeCost(best, baseline, names)}`;
}

interface Names {
  readonly model: string;
  readonly baseline: string;
}

function formatTexts({ examples, attackedLabel }: ComparedMetric): string {
  return `${formatCount(examples)} ${attackedLabel === null ? "texts" : `texts of ${attackedLabel}`}`;
}

/** Positive points: the model has more than the baseline. Comparisons have the baseline first. */
function describePair(metric: ComparedMetric, reference: ComparedMetric, texts: string, names: Names): string {
  const { difference, low, high, p, better } = metric.comparison!;
  const values =
    `${names.model} is right on ${formatPercent(metric.value)} of ${texts}, ` +
    `${names.baseline} on ${formatPercent(reference.value)}`;
  // A significant difference is counted in the direction of its word, others from the baseline.
  const isFewer = better === "first";
  const points = (value: number): string => formatPoints(isFewer ? value : -value);
  const [from, to] = isFewer ? [low, high] : [high, low];
  const test = `95% CI ${points(from)} to ${points(to)}; p ${formatPValue(p.corrected)}`;
  if (better === null) return `there is no significant difference: ${values}, ${points(difference)} points (${test})`;
  return `${values}: ${points(difference)} points ${isFewer ? "fewer" : "more"} (${test})`;
}

/** Without an attack, the whole test split is compared if both have it. */
function describeCost(model: ComparisonRow, baseline: ComparisonRow, names: Names): string {
  const id = model.metrics.get("accuracy")?.comparison ? "accuracy" : "clean";
  const [ours, theirs] = [model.metrics.get(id), baseline.metrics.get(id)];
  if (!ours?.comparison || !theirs) return "";
  const split = id === "accuracy" ? `${formatCount(ours.examples)} test texts` : formatTexts(ours);
  return `Without an attack, ${describePair(ours, theirs, split, names)}.`;
}

function describeSingle(rows: readonly ComparisonRow[], main: string, attack: string): string {
  const sentences = rows.flatMap(({ group, metrics }) => {
    const [before, under] = [metrics.get("clean"), metrics.get(main)];
    if (!before || !under) return [];
    const interval = under.interval && ` (95% CI ${formatInterval(under.interval.low, under.interval.high)})`;
    return [
      `Under ${attack}, ${group.name} is right on ${formatPercent(under.value)} of ${formatTexts(under)}` +
        `${interval ?? ""}; before, on ${formatPercent(before.value)}.`,
    ];
  });
  return sentences.join(" ");
}

/** The number of texts that fool only one of two models, by attack. */
export function describeOneSided(rows: readonly ComparisonRow[], baselineName: string): string {
  const main = selectMainMetric(rows);
  const baseline = rows.find(({ group }) => group.name === baselineName);
  const attacks = main === null ? [] : [...(baseline?.metrics.keys() ?? [])].filter(isAttackMetric);
  return attacks
    .flatMap((attack) =>
      rows.flatMap(({ group }) => {
        if (!baseline || group.name === baselineName) return [];
        const [first, second] = [baseline.group.runs[0], group.runs[0]].map((run) => listFooled(run, attack));
        if (!first || !second) return [];
        const count = (a: ReadonlyMap<string, boolean>, b: ReadonlyMap<string, boolean>): string =>
          formatCount([...a].filter(([id, fooled]) => fooled && b.get(id) === false).length);
        const [one, two] = [count(first, second), count(second, first)];
        return [`${attack} fools only ${baselineName} with ${one} texts, only ${group.name} with ${two}.`];
      }),
    )
    .join(" ");
}

/** By text: whether the attack fooled the model. Texts that it misclassified before are left out. */
function listFooled(
  run: ComparisonRow["group"]["runs"][number] | undefined,
  attack: string,
): ReadonlyMap<string, boolean> | null {
  const results = run?.attacks?.journals.get(attack)?.results;
  if (!results) return null;
  return new Map(results.flatMap(({ id, outcome }) => (outcome === "skipped" ? [] : [[id, outcome === "success"]])));
}
