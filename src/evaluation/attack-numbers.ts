import { formatCount, formatDuration, formatInterval, formatNumber, formatPercent } from "../base/format.js";
import { describeChecks, isAdequate, notAdequate } from "./attack-checks.js";
import { type AttackSuiteSummary, type AttackSummary, curveBudgets } from "./attack-summary.js";
import { describeMetric } from "./metric-table.js";
import { type Interval, wilsonInterval } from "./statistics.js";

/** The subject of an attack's numbers: its examples and the names of the classes. */
interface NumberContext extends Pick<AttackSuiteSummary, "examples" | "clean"> {
  readonly labels: readonly string[];
}

/** A number as text, with its 95% CI if it has one; nothing if the attack does not have it. */
type FormattedNumber = string | readonly [value: string, interval: string] | false | undefined;

/** A title that begins with two spaces continues the number above it. */
type NumberFormat = readonly [
  title: string,
  format: (summary: AttackSummary, context: NumberContext) => FormattedNumber,
];

/** The mark of a number of an attack that is weaker than another one that it must beat. */
const formatMark = ({ checks }: Pick<AttackSummary, "checks">): string =>
  isAdequate(checks) ? "" : ` (${notAdequate})`;
const formatPart = (fraction: number, of: number): string => `${formatPercent(fraction)} of ${formatCount(of)}`;
const formatCounts = (part: number, whole: number): string => `${formatCount(part)} of ${formatCount(whole)}`;
const formatBounds = ({ low, high }: Interval): string => formatInterval(low, high);
const formatSeconds = (seconds: number): string => formatDuration(1000 * seconds);

const resources = [
  ["encoder", "sentence encoder"],
  ["mlm", "masked LM"],
  ["tagger", "tagger"],
  ["gradient", "gradients"],
] as const;

/** Every number of an attack, in the order in which it is shown. */
const attackNumbers: readonly NumberFormat[] = [
  [
    "recall of the attacked class",
    ({ recall, ...summary }) =>
      recall && [
        `${formatPart(recall.underAttack, recall.examples)}${formatMark(summary)}`,
        formatBounds(recall.interval),
      ],
  ],
  ...curveBudgets.map(
    (budget): NumberFormat => [
      `  after ${formatCount(budget)} ${budget === 1 ? "query" : "queries"}`,
      ({ curve }) => {
        const point = curve?.find(({ queries }) => queries === budget);
        return point && [formatPercent(point.recall), formatBounds(point.interval)];
      },
    ],
  ),
  ["  before the attack", ({ recall }) => recall && formatPercent(recall.before)],
  ["  class", ({ recall }, { labels }) => recall?.labels.map((label) => labels[label] ?? label).join(", ")],
  [
    describeMetric("clean").title,
    (_summary, { clean, examples }) => [
      formatPart(clean, examples),
      formatBounds(wilsonInterval(Math.round(clean * examples), examples)),
    ],
  ],
  [
    "accuracy under attack",
    ({ accuracyUnderAttack, interval, ...summary }, { examples }) => [
      `${formatPart(accuracyUnderAttack, examples)}${formatMark(summary)}`,
      formatBounds(interval),
    ],
  ],
  ["  checks of the attack", ({ checks }) => checks && describeChecks(checks)],
  ["success rate", ({ successRate, attacked }) => formatPart(successRate, attacked)],
  ["words left", ({ wordsLeft }) => wordsLeft !== undefined && formatPercent(wordsLeft)],
  ["words changed", ({ wordsChanged }) => formatPercent(wordsChanged)],
  ["queries per text", ({ queries }) => formatNumber(queries.mean)],
  ["  median", ({ queries }) => formatNumber(queries.median)],
  ["  95th percentile", ({ queries }) => formatNumber(queries.p95)],
  ["  total", ({ queries }) => formatCount(queries.total)],
  ["queries with the margin of another", ({ ties }) => ties !== undefined && formatCount(ties)],
  ["texts evaluated", ({ queries }) => formatCount(queries.evaluated)],
  [
    "queries answered from the cache",
    ({ queries }) => queries.total > 0 && formatPercent(Math.max(0, 1 - queries.evaluated / queries.total)),
  ],
  ["tokens evaluated of queried", ({ tokens }) => tokens.queried > 0 && formatCounts(tokens.evaluated, tokens.queried)],
  ...resources.map(
    ([kind, name]): NumberFormat => [
      `${name}: calls, inputs, time`,
      ({ resources: costs }) => {
        const cost = costs?.[kind];
        return cost && `${formatCount(cost.calls)}, ${formatCount(cost.inputs)}, ${formatSeconds(cost.seconds)}`;
      },
    ],
  ),
  ["time", ({ seconds }) => seconds > 0 && formatSeconds(seconds)],
  [
    "texts evaluated/s",
    ({ seconds, queries }) => seconds > 0 && queries.evaluated > 0 && formatNumber(queries.evaluated / seconds, 3),
  ],
];

/** The numbers of tables that have a row per attack. */
export const mainAttackNumbers: readonly string[] = [
  "recall of the attacked class",
  describeMetric("clean").title,
  "accuracy under attack",
  "success rate",
  "words changed",
  "queries per text",
  "time",
];

/**
 * Tabulates attacks for any surface: a title and a cell per attack. A number that no attack has is
 * left out, and its 95% CI follows a number. The accuracy on texts of one label is its recall.
 */
export function tabulateAttacks(
  attacks: readonly (NumberContext & { readonly summary: AttackSummary })[],
  attackedLabel: string | null,
  titles: readonly string[] = attackNumbers.map(([title]) => title),
): { title: string; cells: string[] }[] {
  return attackNumbers
    .filter(([title]) => titles.includes(title))
    .flatMap(([title, format]) => {
      const found = attacks.map((attack) => [format(attack.summary, attack) || []].flat());
      const shown = attackedLabel === null ? title : title.replace(/^accuracy/, `recall of ${attackedLabel}`);
      return [shown, "  95% CI"]
        .map((name, i) => ({ title: name, cells: found.map((each) => each[i] ?? "–") }))
        .filter((_, i) => found.some((each) => each[i] !== undefined));
    });
}
