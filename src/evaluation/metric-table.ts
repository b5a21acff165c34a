import { formatPercent } from "../base/format.js";

/** The meaning of a number. Every table, comparison and selection reads it from here. */
export interface MetricDescription {
  readonly id: string;
  /** The name that people read. */
  readonly title: string;
  /** The direction of better values. */
  readonly direction: "higher" | "lower";
  /** A fraction of the examples, a score without such a count, or a loss in nats. */
  readonly unit: "fraction" | "score" | "nats";
}

/** Followed by the number of substitutions: the fraction of texts that provably survive them. */
export const exactPrefix = "exact-";

/** Prefix of the metric that counts how often two dropout passes disagree in the first N steps. */
export const inconsistencyPrefix = "inconsistent-";

/** The event key of the disagreement between two dropout passes (ROSE table 4). */
export const disagreementMetric = "disagreement";

const recallPrefix = "recall:";

/** Followed by a false-positive rate: the recall of the positive label at that rate. */
export const recallAtFprPrefix = "recall-at-fpr:";

/** Followed by a recall of the positive label: the false-positive rate at that recall. */
export const fprAtRecallPrefix = "fpr-at-recall:";

/** The id of the recall of a class. */
export function getRecallId(label: string): string {
  return `${recallPrefix}${label}`;
}

/** The class that a metric is the recall of; null for other metrics. */
export function getRecallLabel(id: string): string | null {
  return id.startsWith(recallPrefix) ? id.slice(recallPrefix.length) : null;
}

const table: readonly MetricDescription[] = [
  { id: "accuracy", title: "accuracy", direction: "higher", unit: "fraction" },
  { id: "f1", title: "F1", direction: "higher", unit: "score" },
  { id: "micro-f1", title: "micro F1", direction: "higher", unit: "score" },
  { id: "macro-f1", title: "macro F1", direction: "higher", unit: "score" },
  { id: "balanced-accuracy", title: "balanced accuracy", direction: "higher", unit: "score" },
  { id: "matthews", title: "Matthews correlation", direction: "higher", unit: "score" },
  { id: "log-loss", title: "log-loss", direction: "lower", unit: "nats" },
  { id: "auc", title: "AUC", direction: "higher", unit: "score" },
  { id: "perplexity", title: "perplexity", direction: "lower", unit: "score" },
  { id: "calibration-error", title: "calibration error", direction: "lower", unit: "score" },
  { id: "robust-accuracy", title: "accuracy under the ASCC attack", direction: "higher", unit: "fraction" },
  { id: "clean", title: "accuracy before the attack", direction: "higher", unit: "fraction" },
  { id: "worst-case", title: "accuracy under all attacks", direction: "higher", unit: "fraction" },
  { id: "advglue", title: "AdvGLUE accuracy", direction: "higher", unit: "fraction" },
  { id: "drop", title: "drop from GLUE to AdvGLUE", direction: "lower", unit: "score" },
];

const byId = new Map(table.map((metric) => [metric.id, metric]));

/**
 * Describes a metric. An id that is not in the table is the accuracy under the attack of that name.
 * If only the texts of one label were attacked, that accuracy is the recall of the label.
 *
 *     const { title, direction, unit } = describeMetric("pwws");
 */
export function describeMetric(id: string, attackedLabel: string | null = null): MetricDescription {
  if (attackedLabel !== null && (isAttackMetric(id) || id === "clean" || id === "worst-case")) {
    const { title, ...description } = describeMetric(id);
    return { ...description, title: title.replace("accuracy", `recall of ${attackedLabel}`) };
  }
  if (id.startsWith(exactPrefix)) {
    const changes = id.slice(exactPrefix.length);
    return { id, title: `exact accuracy, ${changes} substitutions`, direction: "higher", unit: "fraction" };
  }
  if (id.startsWith(inconsistencyPrefix)) {
    const title = `inconsistency, ${id.slice(inconsistencyPrefix.length)} steps`;
    return { id, title, direction: "lower", unit: "score" };
  }
  if (id.startsWith(recallAtFprPrefix)) {
    const rate = formatPercent(Number(id.slice(recallAtFprPrefix.length)));
    return { id, title: `recall at ${rate} false positives`, direction: "higher", unit: "fraction" };
  }
  if (id.startsWith(fprAtRecallPrefix)) {
    const recall = formatPercent(Number(id.slice(fprAtRecallPrefix.length)), 0);
    return { id, title: `false positives at ${recall} recall`, direction: "lower", unit: "fraction" };
  }
  const label = getRecallLabel(id);
  if (label !== null) return { id, title: `recall of ${label}`, direction: "higher", unit: "fraction" };
  return byId.get(id) ?? { id, title: `accuracy under ${id}`, direction: "higher", unit: "fraction" };
}

export function isAttackMetric(id: string): boolean {
  const isOther = [inconsistencyPrefix, exactPrefix, recallAtFprPrefix, fprAtRecallPrefix].some((prefix) =>
    id.startsWith(prefix),
  );
  return !byId.has(id) && !isOther && getRecallLabel(id) === null;
}

/**
 * Returns true if one value of a metric is better than another. A method's own metric has the direction
 * that the method declares.
 */
export function isBetter(id: string, value: number, than: number, direction = describeMetric(id).direction): boolean {
  return direction === "lower" ? value < than : value > than;
}

/** A number with its unit: percent of texts, nats, or a score between 0 and 1. */
export function formatWithUnit(id: string, value: number): string {
  const { unit } = describeMetric(id);
  if (unit === "fraction") return formatPercent(value);
  return unit === "nats" ? `${value.toFixed(3)} nats` : value.toFixed(3);
}

/** A metric's value as text: percent, or a loss with three decimals. */
export function formatMetric(id: string, value: number): string {
  return describeMetric(id).unit === "nats" ? value.toFixed(3) : (100 * value).toFixed(1);
}
