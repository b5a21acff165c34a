import { formatPercent, formatPoints, formatPValue } from "../base/format.js";
import { formatCommandLine } from "../base/shell.js";
import type { MetricComparison } from "../evaluation/compare.js";

/** The facts behind the verdict. In both comparisons, the robust model is the first one. */
export interface Measured {
  readonly clean: MetricComparison;
  readonly attacked: MetricComparison;
  /** The name of the attack: pwws, or all attacks. */
  readonly attack: string;
  /** The reasons why the models are degenerate; null for a sound one. */
  readonly degeneracy: { readonly standard: string | null; readonly robust: string | null };
  readonly robustFolder: string;
  readonly epochs: number;
}

/** Says in three sentences what was gained, what it cost and what to do next. */
export function describeHardening(measured: Measured): string {
  const { standard, robust } = measured.degeneracy;
  const next = describeNextStep(measured);
  const reason = standard ?? robust;
  if (reason === null) return [describeGain(measured), describeCost(measured), next].join(" ");
  // The numbers of such a model would only mislead.
  const one = `the ${standard === null ? "robust" : "standard"} model is`;
  const [subject, owner] =
    standard !== null && robust !== null
      ? ["the standard and the robust model are", " of the standard one"]
      : [one, ""];
  return `Nothing can be claimed under ${measured.attack}: ${subject} degenerate. The reason${owner}: ${reason}. ${next}`;
}

/** 60.0% instead of 45.0% of 180 texts, 15.0 points (95% CI 8.1 to 21.9; p < 0.001). */
function formatNumbers({ first, second, examples, difference, low, high, p }: MetricComparison): string {
  return (
    `${formatPercent(first)} instead of ${formatPercent(second)} of ${examples} texts, ${formatPoints(difference)} points ` +
    `(95% CI ${formatPoints(low)} to ${formatPoints(high)}; p ${formatPValue(p.corrected)})`
  );
}

function describeGain({ attacked, attack }: Measured): string {
  const numbers = formatNumbers(attacked);
  if (attacked.better === "first") return `Gained: under ${attack}, the robust model is right on ${numbers}.`;
  if (attacked.better === "second") return `Lost: under ${attack}, the robust model is right on only ${numbers}.`;
  return `No significant difference under ${attack}: the robust model is right on ${numbers}.`;
}

function describeCost({ clean }: Measured): string {
  const numbers = formatNumbers(clean);
  if (clean.better === "second") return `It cost accuracy without an attack: ${numbers}.`;
  if (clean.better === "first") return `It cost nothing, and accuracy without an attack rose: ${numbers}.`;
  return `No significant cost: without an attack it is right on ${numbers}.`;
}

function describeNextStep({ attacked, degeneracy, robustFolder, epochs }: Measured): string {
  const longer = `--epochs ${2 * epochs}`;
  if (degeneracy.standard !== null)
    return `Next: add labeled texts or train longer (${longer}) in another --out, until the standard model learns the task.`;
  if (degeneracy.robust !== null) return `Next: add labeled texts or train longer (${longer}) in another --out.`;
  const other = formatCommandLine(["temper", "attack", robustFolder, "--attack", "textfooler"]);
  const serve = formatCommandLine(["temper", "serve", robustFolder]);
  if (attacked.better === "first")
    return `Next: try an attack that it was not trained against (${other}), and deploy it if that holds (${serve}).`;
  if (attacked.better === "second") return "Next: keep the standard model, and try another --method in another --out.";
  return "Next: add labeled texts, which both sharpen the comparison and help training, or repeat with other --seed values.";
}
