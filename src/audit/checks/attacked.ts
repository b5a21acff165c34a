import { join } from "node:path";
import { measureAttacks } from "../../actions/measure/attacked.js";
import { readJournal } from "../../attacks/journal.js";
import type { AttackResult } from "../../attacks/result.js";
import { Interrupted, UserError } from "../../base/errors.js";
import { formatCount, formatPercent } from "../../base/format.js";
import { groupBy } from "../../base/group-by.js";
import { curveBudgets, type JournalSummary } from "../../evaluation/attack-summary.js";
import { runSanityChecks } from "../../evaluation/sanity-checks.js";
import { wilsonInterval } from "../../evaluation/statistics.js";
import { type AttackFolder, readAttackFolder } from "../../runs/attack-folder.js";
import type { AttackedModel } from "../audit-result.js";
import { type Claim, createClaim, rateSeverity, showExample } from "../claim.js";
import {
  type AuditContext,
  type StepResult,
  selectSettings,
  suggestHarden,
  suggestLetters,
  suggestTraining,
} from "../context.js";

export function getAttackFolder({ request }: Pick<AuditContext, "request">): string {
  return join(request.out, "attacks");
}

async function readResults({ path }: JournalSummary): Promise<AttackResult[]> {
  const results: AttackResult[] = [];
  for await (const { result } of readJournal(path)) results.push(result);
  return results;
}

/** Runs one attack of the plan as far as the time allows. On a replay, its journal is only read. */
export async function checkAttack(context: AuditContext, name: string): Promise<StepResult> {
  const { plan, request, task, model, callbacks } = context;
  const out = getAttackFolder(context);
  const examples = context.examples.slice(0, plan.attackedTexts);
  // A program can pass an attack that no plan can name.
  const attacks = (request.attacks ?? plan.attacks).filter((spec) => spec.name === name);
  const benign = task.labels.indexOf(String(attacks[0]?.options?.benignLabel));
  if (examples.every(({ label }) => label === benign))
    return {
      claims: [],
      missing: `attack ${name}: all ${formatCount(examples.length)} texts are ${task.labels[benign]}`,
    };
  const settings = { ...selectSettings(context), queryBudget: plan.queryBudget, checks: true, resume: true };
  if (!context.isReplay)
    await measureAttacks({ ...settings, model, attacks, out }, callbacks, { task, examples }).catch(
      (error: unknown) => {
        // The texts that are finished by then are measured.
        if (!(error instanceof Interrupted)) throw error;
      },
    );
  const journal = (await readAttackFolder(out)).journals.get(name);
  if (!journal) throw new UserError(`${out}: there is no journal of ${name}. Audit again with more --minutes.`);
  const results = await readResults(journal);
  const left = examples.length - results.length;
  const isStarted = results.some(({ label }) => label !== journal.target);
  return {
    claims: isStarted ? [describeAttack(context, journal, results)] : [],
    ...(left > 0 && { missing: `attack ${name}: ${formatCount(left)} of ${formatCount(examples.length)} texts` }),
  };
}

function describeAttack(context: AuditContext, journal: JournalSummary, results: readonly AttackResult[]): Claim {
  const { task, plan, request } = context;
  const { attack: name } = journal.header;
  const { summary, target } = journal;
  const fooled = results.filter(({ outcome }) => outcome === "success");
  const isGuard = target !== null;
  return createClaim({
    id: `attack-${name}`,
    area: "attacked",
    severity: fooled.length > 0 ? (rateSeverity(summary.successRate, [0.01, 0.2, 0.5]) ?? "low") : null,
    claim: `${name} changes no answer within ${formatCount(plan.queryBudget)} queries per text.`,
    summary:
      `${name} changes ${formatCount(fooled.length)} of ${formatCount(summary.attacked)} correct answers ` +
      `(${formatPercent(summary.successRate)}; median queries: ${formatCount(summary.queries.median)}).`,
    domain: `${formatCount(results.length)} random texts of ${task.name}${isGuard ? `, without those of ${task.labels[target]}` : ""}`,
    method: `temper attack --attack ${name} --query-budget ${plan.queryBudget}`,
    numbers: { successRate: summary.successRate, attacked: summary.attacked, examples: results.length },
    texts: fooled.map(({ id, label, finalTexts, after }) => {
      const now = task.labels[after.indexOf(Math.max(...after))];
      return showExample({ id, texts: finalTexts }, `${task.labels[label]}, now ${now}`);
    }),
    remedy:
      request.positiveLabel !== null && isGuard
        ? suggestTraining(context, "Train a guard that reads texts in their canonical form.", {
            normalize: "canonical",
            out: "runs/guard",
          })
        : name === "charmer"
          ? suggestLetters(context)
          : suggestHarden(context, "Train a robust model on the same texts."),
  });
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

export async function summarizeAttacked(context: AuditContext): Promise<{
  readonly attacks: Record<string, AttackedModel>;
  readonly underAttack: number | null;
  readonly claims: Claim[];
}> {
  const folder = await readAttackFolder(getAttackFolder(context));
  const attacks: Record<string, AttackedModel> = {};
  for (const [name, journal] of folder.journals) {
    const { summary, target } = journal;
    const examples = journal.results.filter(({ label }) => label !== target).length;
    // A stopped attack may have skipped texts only.
    if (examples === 0) continue;
    const curve = listCurve(await readResults(journal), target, context.plan.queryBudget);
    attacks[name] = { accuracy: curve.at(-1)!.accuracy, examples, successRate: summary.successRate, target, curve };
  }
  const all = Object.values(attacks);
  const untargeted = all.filter(({ target }) => target === null);
  const accuracies = (untargeted.length > 0 ? untargeted : all).map(({ accuracy }) => accuracy);
  // Attacks on the same texts combine to their worst case.
  const combined = untargeted.length > 1 && folder.summary ? [folder.summary.worstCase] : [];
  return {
    attacks,
    underAttack: all.length === 0 ? null : Math.min(...accuracies, ...combined),
    claims: checkAdequacy(context, folder),
  };
}

function checkAdequacy({ task, victim }: AuditContext, { summary }: AttackFolder): Claim[] {
  const warnings = summary ? runSanityChecks(summary, { ...victim.facts, labels: task.labels }) : [];
  return [...groupBy(warnings, ({ name }) => name)]
    .filter(([name]) => name !== "degenerate")
    .map(([name, own]) =>
      createClaim({
        id: `sanity-${name}`,
        area: "attacked",
        severity: "low",
        claim: "The attacks are strong enough for their numbers (sanity checks).",
        outcome: "inconclusive",
        summary: own.map(({ message }) => message).join(" "),
        domain: "all attacks of this audit",
        method: "sanity checks of temper attack",
        remedy: { remedy: "Audit again with more --minutes: more texts and queries decide it." },
      }),
    );
}
