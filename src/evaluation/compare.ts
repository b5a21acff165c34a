import { UserError } from "../errors.js";
import { Rng } from "../tensor/random.js";
import { holm, mcNemar, mean, pairedBootstrap, pairedTTest, powerLine } from "./statistics.js";

/** Whether a model was right on each example, by the example's id. */
export type Outcomes = ReadonlyMap<string, boolean>;

/** One side of a comparison: a name, and for every seed what was measured (clean, or an attack's name). */
export interface Side {
  readonly name: string;
  readonly seeds: readonly ReadonlyMap<string, Outcomes>[];
  /** Which seeds these are, where that is known. */
  readonly numbers?: readonly number[];
}

/** Two models on one measure. */
export interface Comparison {
  readonly measure: string;
  readonly examples: number;
  readonly seeds: number;
  /** Accuracies, means over the seeds. */
  readonly first: number;
  readonly second: number;
  /** The first's lead and its 95 % interval, by a paired bootstrap over seeds and examples. */
  readonly difference: number;
  readonly low: number;
  readonly high: number;
  readonly p: {
    readonly bootstrap: number;
    /** The exact test on the examples that only one of two gets right; one seed only. */
    readonly mcNemar: number | null;
    /** One-tailed, that the better one's accuracy is larger over the seeds; several seeds only. */
    readonly tTest: number | null;
    /** What decides: McNemar's with one seed, else the bootstrap's, corrected for the number of measures (Holm). */
    readonly corrected: number;
  };
  readonly better: "first" | "second" | null;
  /** The finding in a sentence. */
  readonly verdict: string;
}

const level = 0.05;

/** The runs of both sides by the seeds that both have, and the seeds that only one has. A single run each is compared as it is. */
export function onSharedSeeds(first: Side, second: Side): { first: Side; second: Side; leftOut: number[] } {
  const [ours, theirs] = [first.numbers, second.numbers];
  if (!ours || !theirs || (ours.length === 1 && theirs.length === 1)) return { first, second, leftOut: [] };
  const shared = ours.filter((number) => theirs.includes(number));
  if (shared.length === 0)
    throw new UserError(
      `${first.name} has seeds ${ours.join(", ")}, ${second.name} has ${theirs.join(", ")}: none in common; train both with the same seeds`,
    );
  const taken = (side: Side, numbers: readonly number[]): Side => ({
    name: side.name,
    seeds: shared.map((number) => side.seeds[numbers.indexOf(number)]!),
    numbers: shared,
  });
  const leftOut = [...new Set([...ours, ...theirs])].filter((number) => !shared.includes(number)).sort((a, b) => a - b);
  return { first: taken(first, ours), second: taken(second, theirs), leftOut };
}

/** Compares two models on every measure that both have on the same examples, seed by seed and example by example. */
export function compareSides(first: Side, second: Side, seed = 0): Comparison[] {
  if (first.seeds.length !== second.seeds.length)
    throw new UserError(
      `${first.name} has ${first.seeds.length} run(s), ${second.name} has ${second.seeds.length}; compare as many of one as of the other`,
    );
  const shared = sharedMeasures(first, second);
  const apart = measuresApart(first, second);
  const measures = apart.length < shared.length ? shared.filter((measure) => !apart.includes(measure)) : shared;
  const rng = new Rng(seed);
  const measured = measures.map((measure) => measureOne(measure, first, second, rng.fork("compare", measure)));
  const corrected = holm(measured.map(({ p }) => p.mcNemar ?? p.bootstrap));
  return measured.map((comparison, i) => {
    const p = { ...comparison.p, corrected: corrected[i]! };
    const better = p.corrected >= level ? null : comparison.difference > 0 ? "first" : "second";
    return { ...comparison, p, better, verdict: sentence({ ...comparison, p, better }, first.name, second.name) };
  });
}

/** Measures that both sides have, but on other examples, as a run's report and another's journals: they say nothing together. */
export function measuresApart(first: Side, second: Side): string[] {
  return sharedMeasures(first, second).filter((measure) => commonExamples(measure, first, second).length === 0);
}

function commonExamples(measure: string, first: Side, second: Side): string[] {
  const [one, ...others] = [...first.seeds, ...second.seeds].map((outcomes) => outcomes.get(measure)!);
  return [...one!.keys()].filter((id) => others.every((table) => table.has(id)));
}

function sharedMeasures(first: Side, second: Side): string[] {
  const has = (side: Side, measure: string) => side.seeds.every((outcomes) => outcomes.has(measure));
  const names = [...new Set(first.seeds.flatMap((outcomes) => [...outcomes.keys()]))];
  const shared = names.filter((measure) => has(first, measure) && has(second, measure));
  if (shared.length > 0) return shared;
  const list = (side: Side) => [...new Set(side.seeds.flatMap((outcomes) => [...outcomes.keys()]))].join(", ") || "nothing";
  throw new UserError(
    `nothing was measured on both: ${first.name} has ${list(first)}, ${second.name} has ${list(second)}; run the same attacks on both`,
  );
}

function measureOne(
  measure: string,
  first: Side,
  second: Side,
  rng: Rng,
): Omit<Comparison, "better" | "verdict" | "p"> & { p: Omit<Comparison["p"], "corrected"> } {
  const ids = commonExamples(measure, first, second);
  if (ids.length === 0)
    throw new UserError(
      `${measure}: ${first.name} and ${second.name} have no example in common; use the same --task, --examples and --seed`,
    );
  const rows = (side: Side) => side.seeds.map((outcomes) => Uint8Array.from(ids, (id) => Number(outcomes.get(measure)!.get(id))));
  const [ours, theirs] = [rows(first), rows(second)];
  const { difference, low, high, p } = pairedBootstrap(ours, theirs, rng);
  const [scores, others] = [ours.map(mean), theirs.map(mean)];
  const only = (a: Uint8Array, b: Uint8Array) => a.filter((value, i) => value > b[i]!).length;
  const single = ours.length === 1;
  const [higher, lower] = difference >= 0 ? [scores, others] : [others, scores];
  return {
    measure,
    examples: ids.length,
    seeds: ours.length,
    first: mean(scores),
    second: mean(others),
    difference,
    low,
    high,
    p: {
      bootstrap: p,
      mcNemar: single ? mcNemar(only(ours[0]!, theirs[0]!), only(theirs[0]!, ours[0]!)).exact : null,
      tTest: single ? null : pairedTTest(higher, lower).p,
    },
  };
}

function sentence(comparison: Omit<Comparison, "verdict">, firstName: string, secondName: string): string {
  const { measure, examples, seeds, first, second, difference, low, high, p, better } = comparison;
  const percent = (value: number) => `${(100 * value).toFixed(1)} %`;
  const points = (value: number) => (100 * value).toFixed(1);
  const on = `on ${examples} examples${seeds > 1 ? ` and ${seeds} seeds` : ""}`;
  const numbers = `${percent(first)} against ${percent(second)} ${on}, ${points(difference)} points (95 %: ${points(low)} to ${points(high)}; p ${formatP(p.corrected)})`;
  if (better === null) {
    const discordant = discordantShare(comparison);
    return `${measure}: ${firstName} and ${secondName} cannot be told apart: ${numbers}; ${powerLine(examples, { discordant })}`;
  }
  const [winner, loser] = better === "first" ? [firstName, secondName] : [secondName, firstName];
  return `${measure}: ${winner} is better than ${loser}: ${numbers}`;
}

/** The share of examples that only one gets right, as the width of the interval tells it; never so small that nothing is left to find. */
function discordantShare({ examples, low, high }: Pick<Comparison, "examples" | "low" | "high">): number {
  const error = (high - low) / (2 * 1.96);
  return Math.max(1 / examples, Math.min(1, error * error * examples));
}

function formatP(p: number): string {
  return p < 0.001 ? "< 0.001" : p.toFixed(3);
}
