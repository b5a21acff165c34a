import { join } from "node:path";
import { exact } from "../../actions/exact/exact.js";
import { measureCertified } from "../../actions/measure/certified.js";
import { formatCount, formatPercent } from "../../base/format.js";
import { describeProof, type ProofSummary } from "../../proofs/index.js";
import { summarizeProofs } from "../../runs/exact-folder.js";
import { type Claim, createClaim, rateSeverity, showExample } from "../claim.js";
import { type AuditContext, selectSettings, suggestHarden } from "../context.js";

/** A proof of other sizes is another proof. */
export function getProofFolder({ request, plan }: Pick<AuditContext, "request" | "plan">): string {
  return join(request.out, "exact", `${plan.exactTexts}-texts-${plan.maxChanges}-changes`);
}

const maxScored = 50_000;

export async function checkExact(context: AuditContext): Promise<Claim[]> {
  const { plan, task, model, callbacks, victim } = context;
  const { maxChanges } = plan;
  if (maxChanges === 0) return [];
  const out = getProofFolder(context);
  const examples = context.examples.slice(0, plan.exactTexts);
  const request = { ...selectSettings(context), model, maxChanges, budget: maxScored, out };
  if (!context.isReplay) await exact(request, callbacks, { task, examples });
  const [summary] = await summarizeProofs(out);
  const { texts } = await describeProof(summary!.proof, victim.victim, task.labels);
  return Array.from({ length: maxChanges }, (_, i) => describeLevel(context, summary!, texts, i + 1));
}

function describeLevel(
  context: AuditContext,
  { bracket, examples, exact: levels }: ProofSummary,
  texts: Awaited<ReturnType<typeof describeProof>>["texts"],
  k: number,
): Claim {
  const level = bracket.find(({ changes }) => changes === k)!;
  const correct = texts.filter(({ provenUpTo }) => provenUpTo >= 0);
  const fooled = correct.filter(({ minChanges }) => minChanges !== null && minChanges <= k);
  const { open } = levels[k]!;
  const what = `${k} word${k === 1 ? "" : "s"}`;
  return createClaim({
    id: `exact-${k}`,
    area: "proven",
    severity: rateSeverity(correct.length === 0 ? 0 : fooled.length / correct.length, [0.01, 0.2, 0.5]),
    claim: `No substitution of up to ${what} changes a correct answer.`,
    outcome: fooled.length > 0 ? "counterexample" : open > 0 ? "inconclusive" : "proven",
    summary:
      `Of ${formatCount(correct.length)} correct answers, ${formatCount(fooled.length)} change with at most ${what}, and ` +
      `${formatCount(open)} are open. ${formatPercent(level.proven)} of ${formatCount(examples)} texts are proven to stay correct.`,
    domain: `${formatCount(examples)} random texts; every combination of substitutes of up to ${what}`,
    method: "exhaustive enumeration with a proof (temper exact)",
    numbers: { proven: level.proven, notBroken: level.unbroken, open, fooled: fooled.length },
    ids: fooled.map(({ id }) => id),
    texts: fooled.flatMap(({ id, finalTexts, minChanges }) =>
      finalTexts ? [showExample({ id, texts: finalTexts }, `${minChanges} changed`)] : [],
    ),
    remedy: suggestHarden(context, "Train a robust model on the same texts."),
  });
}

export async function checkCertificates(context: AuditContext): Promise<Claim> {
  const { request, victim, callbacks, task, plan } = context;
  const { device, threads } = request;
  const run = victim.local?.run ?? null;
  if (!run?.certificate)
    return createClaim({
      id: "certificates",
      area: "proven",
      severity: null,
      claim: "The model has a certificate against word edits.",
      summary: "It was not trained for one (temper train --method hash-vote).",
      domain: "the model",
      method: "its run",
    });
  const examples = context.examples.slice(0, plan.exactTexts);
  const settings = { device, threads, edits: 1 };
  const { kind, certified, edits } = await measureCertified(run, { task, examples }, settings, callbacks);
  const fraction = certified / examples.length;
  return createClaim({
    id: `certified-${kind}`,
    area: "proven",
    severity: null,
    claim: `No edit of ${edits} word changes a correct answer (${kind}).`,
    outcome: fraction === 1 ? "proven" : "inconclusive",
    summary: `${formatPercent(fraction)} of ${formatCount(examples.length)} texts are certified.`,
    domain: `${formatCount(examples.length)} random texts; any insertion, deletion or replacement of ${edits} word`,
    method: `certificate ${kind} (temper certify)`,
    numbers: { certified: fraction },
  });
}
