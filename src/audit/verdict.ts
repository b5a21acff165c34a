import { formatCount, formatPercent } from "../base/format.js";
import type { AuditResult } from "./audit-result.js";
import type { AuditContext } from "./context.js";

/** Risks that an audit says nothing about. */
export const notCovered = [
  "Poisoning of the training data as such: only its traces are searched (triggers, label errors).",
  "Privacy: whether training texts can be extracted or recognized.",
  "Paraphrases by people or language models, and attacks in other languages than the texts.",
  "Texts of other sources than the audited data, and how these change over time.",
  "The system around the model: prompts, filters, people.",
] as const;

/** The threat model in the words of NIST AI 100-2. */
export function describeThreat(
  { victim, plan, request, task }: AuditContext,
  names: readonly string[],
  hasProofs: boolean,
): Record<string, string> {
  const isOpen = victim.local?.gradient != null;
  const guard = request.positiveLabel;
  return {
    "attack stage": "deployment: the model is trained, and texts are changed",
    goal: `evasion (integrity violation): any wrong label${guard === null ? "" : `; for guard, ${guard} passes`}`,
    knowledge: isOpen ? "white box: weights and gradients" : "black box: probabilities of any text",
    capability: [
      names.includes("auto") && "auto: words are replaced by synonyms that fit",
      names.includes("charmer") && "charmer: up to 10 characters are inserted, replaced or deleted",
      names.includes("guard") && "guard: texts are rewritten, and words and padding added",
      ...names.filter((name) => !["auto", "charmer", "guard"].includes(name)),
      hasProofs && `exact: every substitution of up to ${plan.maxChanges} word${plan.maxChanges === 1 ? "" : "s"}`,
    ]
      .filter(Boolean)
      .join("; "),
    budget: `${formatCount(plan.queryBudget)} queries per text and attack, on ${formatCount(plan.attackedTexts)} texts of ${task.name}`,
  };
}

export function describeVerdict({
  clean,
  underAttack,
  evaluation: { examples, interval, degeneracy },
  findings,
  attacks,
  notMeasured,
  task,
}: Pick<AuditResult, "clean" | "underAttack" | "evaluation" | "findings" | "attacks" | "notMeasured"> & {
  readonly task: string;
}): string {
  const ran = Object.entries(attacks);
  const names = ran.filter(([, { target }]) => target === null).map(([name]) => name);
  // A guard attack is about the texts of one label, so its number is another one.
  const recalls = ran.flatMap(([name, { target, curve, accuracy }]) =>
    target === null
      ? []
      : [`recall falls from ${formatPercent(curve[0]!.accuracy)} to ${formatPercent(accuracy)} under ${name}`],
  );
  const accuracies = names.length > 0 ? [`${formatPercent(underAttack!)} under attack (${names.join(", ")})`] : [];
  const attacked = [...accuracies, ...recalls].join("; ") || "no attack was run";
  const start =
    degeneracy === null
      ? `The model is right on ${formatPercent(clean)} of ${formatCount(examples)} texts of ${task} (95% CI ` +
        `${formatPercent(interval.low)} to ${formatPercent(interval.high)}), and ${attacked}.`
      : `The model is degenerate, so its numbers say nothing: ${degeneracy}.`;
  const serious = findings.filter(({ severity }) => severity === "high");
  const listed = (serious.length > 0 ? serious : findings).slice(0, 3).map(({ id }) => id);
  const found =
    findings.length === 0
      ? "Nothing that was checked speaks against it."
      : `${formatCount(findings.length)} finding${findings.length === 1 ? "" : "s"}, ${formatCount(serious.length)} severe: ${listed.join(", ")}` +
        `${findings.length > listed.length ? ", and others" : ""}.`;
  // A robust model is the first thing to try, because it also changes what the other findings are about.
  const commands = findings.flatMap(({ area, evidence: { command } }) => (command === null ? [] : [{ area, command }]));
  const best =
    commands.find(({ command }) => command.startsWith("temper harden")) ??
    commands.find(({ area }) => area === "attacked") ??
    commands[0];
  const rest = notMeasured.length > 0 ? "audit again with more --minutes, because some was not measured" : null;
  const fallback = rest ?? "audit other texts, or keep this file as the baseline of the next version";
  const next = `Next: ${best ? `${best.command}${rest ? `, and ${rest}` : ""}` : fallback}.`;
  return [start, found, next].join(" ");
}
