import { join } from "node:path";
import { measureAttacks, readMeasuredResults } from "../../actions/measure/attacked.js";
import type { AttackResult } from "../../attacks/result.js";
import { UserError } from "../../base/errors.js";
import { formatCount, formatPercent } from "../../base/format.js";
import { curveBudgets, type JournalSummary } from "../../evaluation/attack-summary.js";
import { runSanityChecks } from "../../evaluation/sanity-checks.js";
import { wilsonInterval } from "../../evaluation/statistics.js";
import { type AttackFolder, readAttackFolder } from "../../runs/attack-folder.js";
import type { AttackedModel } from "../audit-result.js";
import { type Claim, createClaim, rateSeverity } from "../claim.js";
import type { AuditContext, StepResult } from "../context.js";
import { suggestHarden, suggestTraining } from "../remedies.js";

export function getAttackFolder({ folder }: Pick<AuditContext, "folder">): string {
  return join(folder, "attacks");
}

/** Runs one attack of the plan. On a replay, its journal is only read. */
export async function checkAttack(context: AuditContext, name: string): Promise<StepResult> {
  const { plan, request, task, model, examples, callbacks, timeLimit, isReplay } = context;
  const out = getAttackFolder(context);
  // A program can pass an attack that no plan can name.
  const attacks = (request.attacks ?? plan.attacks).filter((spec) => spec.name === name);
  const { substitutions, minContextSimilarity, seed, device, threads, endpoint } = request;
  const given = { task, examples: examples.slice(0, plan.attackedTexts) };
  const settings = { substitutions, minContextSimilarity, seed, device, threads, endpoint };
  const { journals } = isReplay
    ? await readAttackFolder(out)
    : await measureAttacks(
        { ...settings, model, attacks, queryBudget: plan.queryBudget, checks: true, out, resume: true },
        callbacks,
        given,
        timeLimit,
      );
  const journal = journals.get(name);
  if (!journal) throw new UserError(`${out}: there is no journal of ${name}. Audit again with more --minutes.`);
  const results: AttackResult[] = [];
  for await (const { attack, result } of readMeasuredResults(out)) if (attack === name) results.push(result);
  const missing = given.examples.length - results.length;
  return {
    claims: [describeAttack(context, journal, results)],
    ...(missing > 0 && {
      missing: `attack ${name}: ${formatCount(missing)} of ${formatCount(given.examples.length)} texts`,
    }),
  };
}

function describeAttack(context: AuditContext, journal: JournalSummary, results: readonly AttackResult[]): Claim {
  const { task, plan, request } = context;
  const { attack: name } = journal.header;
  const { summary, target } = journal;
  const fooled = results.filter(({ outcome }) => outcome === "success");
  const severity = rateSeverity(summary.successRate, [0.01, 0.2, 0.5]);
  const isGuard = target !== null;
  return createClaim(
    {
      ...{ id: `attack-${name}`, area: "attacked" },
      claim: `${name} changes no answer within ${formatCount(plan.queryBudget)} queries per text.`,
    },
    fooled.length > 0 ? (severity ?? "low") : null,
    {
      summary:
        `${name} changes ${formatCount(fooled.length)} of ${formatCount(summary.attacked)} correct answers ` +
        `(${formatPercent(summary.successRate)}), with a median of ${formatCount(summary.queries.median)} queries.`,
      domain: `${formatCount(results.length)} random texts of ${task.name}${isGuard ? `, without those of ${task.labels[target]}` : ""}`,
      method: `temper attack --attack ${name} --query-budget ${plan.queryBudget}`,
      numbers: { successRate: summary.successRate, attacked: summary.attacked, examples: results.length },
      ids: fooled.map(({ id }) => id),
      texts: fooled.map(({ id, label, finalTexts, after }) => ({
        id,
        text: finalTexts.join(" | "),
        note: `${task.labels[label]}, now ${task.labels[after.indexOf(Math.max(...after))]}`,
      })),
      ...(fooled.length > 0 &&
        (request.positiveLabel !== null && isGuard
          ? suggestTraining(context, "Train a guard that reads texts in their canonical form.", {
              normalize: "canonical",
              out: "runs/guard",
            })
          : suggestHarden(context, "Train a robust model on the same texts."))),
    },
  );
}

/** The accuracy after each number of queries. More queries never raise it. */
function listCurve(results: readonly AttackResult[], target: number | null, budget: number): AttackedModel["curve"] {
  const attacked = results.filter(({ label }) => label !== target);
  return [0, ...curveBudgets.filter((queries) => queries < budget), budget].map((queries) => {
    const correct = attacked.filter(
      ({ outcome, queries: needed }) => outcome === "failed" || (outcome === "success" && needed > queries),
    ).length;
    return { queries, accuracy: correct / attacked.length, interval: wilsonInterval(correct, attacked.length) };
  });
}

/** Everything that the journals of an audit say: the numbers of each attack, and signs that they mislead. */
export async function summarizeAttacked(context: AuditContext): Promise<{
  readonly attacks: Record<string, AttackedModel>;
  readonly underAttack: number | null;
  readonly claims: Claim[];
}> {
  const folder = await readAttackFolder(getAttackFolder(context));
  const results = new Map<string, AttackResult[]>();
  for await (const { attack, result } of readMeasuredResults(folder.folder))
    results.set(attack, [...(results.get(attack) ?? []), result]);
  const attacks = [...folder.journals].map(([name, { summary, target }]): [string, AttackedModel] => {
    const curve = listCurve(results.get(name)!, target, context.plan.queryBudget);
    const examples = results.get(name)!.filter(({ label }) => label !== target).length;
    return [name, { accuracy: curve.at(-1)!.accuracy, examples, successRate: summary.successRate, target, curve }];
  });
  const untargeted = attacks.filter(([, { target }]) => target === null).map(([, { accuracy }]) => accuracy);
  const worst = untargeted.length > 0 ? untargeted : attacks.map(([, { accuracy }]) => accuracy);
  // Attacks on the same texts combine to their worst case.
  const combined = folder.summary?.worstCase ?? null;
  return {
    attacks: Object.fromEntries(attacks),
    underAttack:
      worst.length === 0 ? null : Math.min(...worst, ...(combined !== null && untargeted.length > 1 ? [combined] : [])),
    claims: checkAdequacy(context, folder),
  };
}

/** The sanity checks of attack reports. */
function checkAdequacy({ task, victim }: AuditContext, { summary }: AttackFolder): Claim[] {
  if (!summary) return [];
  const warnings = runSanityChecks(summary, { ...victim.facts, labels: task.labels });
  return warnings
    .filter(({ name }) => name !== "degenerate")
    .map(({ name, message }) =>
      createClaim(
        {
          id: `sanity-${name}`,
          area: "attacked",
          claim: "The attacks are strong enough for their numbers (sanity checks).",
        },
        "low",
        { summary: message, domain: "all attacks of this audit", method: "sanity checks of temper attack" },
        "inconclusive",
      ),
    );
}
