import { type Callbacks, warn } from "../base/events.js";
import { isAttackMetric } from "./metric-table.js";
import type { ExampleOutcomes, ModelOutcomes } from "./outcomes.js";

export const worstCaseId = "worst-case";

/**
 * Tells for each example if it stays correct under all attacks, over the examples that all of them have.
 */
export function combineAttacks(attacks: readonly ExampleOutcomes[]): ExampleOutcomes {
  const [first, ...others] = attacks;
  const ids = [...(first?.keys() ?? [])].filter((id) => others.every((robust) => robust.has(id)));
  return new Map(ids.map((id) => [id, attacks.every((robust) => robust.get(id) === true)]));
}

/**
 * The attacks on the largest sample of texts. Attacks on fewer or on other texts are left out: the
 * strongest of several attacks is only known for texts that all of them saw.
 */
export function selectLargestSample(outcomes: ReadonlyMap<string, ExampleOutcomes>): string[] {
  const groups: { readonly texts: ExampleOutcomes; readonly names: string[] }[] = [];
  for (const [name, texts] of outcomes) {
    if (!isAttackMetric(name)) continue;
    const same = groups.find((group) => hasSameTexts(group.texts, texts));
    if (same) same.names.push(name);
    else groups.push({ texts, names: [name] });
  }
  const isLarger = (a: (typeof groups)[number], b: (typeof groups)[number]): boolean =>
    a.texts.size > b.texts.size || (a.texts.size === b.texts.size && a.names.length > b.names.length);
  return (
    groups.reduce<(typeof groups)[number] | null>((best, each) => (!best || isLarger(each, best) ? each : best), null)
      ?.names ?? []
  );
}

function hasSameTexts(a: ExampleOutcomes, b: ExampleOutcomes): boolean {
  return a.size === b.size && [...a.keys()].every((id) => b.has(id));
}

type Outcomes = ReadonlyMap<string, ExampleOutcomes>;

/** The attacks on the largest sample of texts that all seeds of all attacked models have. */
function listCommonAttacks(seeds: readonly Outcomes[]): string[] {
  const attacked = seeds.map(selectLargestSample).filter(({ length }) => length > 0);
  const [first = [], ...others] = attacked;
  return first.filter((name) => others.every((names) => names.includes(name)));
}

/**
 * Computes the worst case of every model over the same attacks. More attacks fool more often, so
 * worst cases over different sets cannot be compared. There is none with fewer than two attacks.
 */
export function unifyWorstCase(
  models: readonly ModelOutcomes[],
  callbacks: Pick<Callbacks, "onEvent"> = {},
): readonly ModelOutcomes[] {
  const seeds = models.flatMap(({ outcomesPerSeed }) => outcomesPerSeed);
  const common = listCommonAttacks(seeds);
  const all = [...new Set(seeds.flatMap((outcomes) => [...outcomes.keys()].filter(isAttackMetric)))];
  if (all.length > common.length && seeds.some((outcomes) => outcomes.has(worstCaseId)))
    warn(
      callbacks,
      `The models were attacked by different attacks (${all.join(", ")}), so their worst case ` +
        `${common.length > 1 ? `covers only ${common.join(", ")}.` : "is not compared."}`,
    );
  return models.map((model) => ({
    ...model,
    outcomesPerSeed: model.outcomesPerSeed.map((outcomes) => replaceWorstCase(outcomes, common)),
  }));
}

function replaceWorstCase(outcomes: Outcomes, attacks: readonly string[]): Outcomes {
  const { [worstCaseId]: _, ...others } = Object.fromEntries(outcomes);
  const isAttacked = attacks.length > 1 && attacks.every((name) => outcomes.has(name));
  const worst = isAttacked ? combineAttacks(attacks.map((name) => outcomes.get(name)!)) : null;
  return new Map([...Object.entries(others), ...(worst ? [[worstCaseId, worst] as const] : [])]);
}
