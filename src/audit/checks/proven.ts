import { join } from "node:path";
import { exact } from "../../actions/exact/exact.js";
import { measureCertified } from "../../actions/measure/certified.js";
import { formatCount, formatPercent } from "../../base/format.js";
import { describeProof } from "../../proofs/index.js";
import { type ExactReport, summarizeProofs } from "../../runs/exact-folder.js";
import { type Claim, createClaim, rateSeverity } from "../claim.js";
import type { AuditContext, StepResult } from "../context.js";
import { suggestHarden, suggestTraining } from "../remedies.js";

/** A proof of other sizes is another proof. */
export function getProofFolder({ folder, plan }: Pick<AuditContext, "folder" | "plan">): string {
  return join(folder, "exact", `${plan.exactTexts}-texts-${plan.maxChanges}-changes`);
}

/** Texts that the enumeration scores per example at most. */
const maxScored = 50_000;

/** Proves which texts no substitutions of up to k words fool. On a replay, the proof is only read. */
export async function checkExact(context: AuditContext): Promise<StepResult> {
  const { plan, request, task, examples, model, callbacks, timeLimit, isReplay, victim } = context;
  const out = getProofFolder(context);
  const { substitutions, minContextSimilarity, seed, device, threads, endpoint } = request;
  const settings = { substitutions, minContextSimilarity, seed, device, threads, endpoint };
  const signal = callbacks.signal ? AbortSignal.any([callbacks.signal, timeLimit]) : timeLimit;
  const given = { task, examples: examples.slice(0, plan.exactTexts) };
  if (!isReplay)
    await exact(
      { ...settings, model, maxChanges: plan.maxChanges, budget: maxScored, out },
      { ...callbacks, signal },
      given,
    );
  const [summary] = await summarizeProofs(out);
  const details = await describeProof(summary!.proof, victim.victim, task.labels);
  const report = { ...summary!, ...details };
  const levels = Array.from({ length: plan.maxChanges }, (_, i) => i + 1);
  return { claims: levels.map((k) => describeLevel(context, report, k)) };
}

function describeLevel(
  context: AuditContext,
  { bracket, texts, examples, exact: levels }: Omit<ExactReport, "textsPerSecond">,
  k: number,
): Claim {
  const level = bracket.find(({ changes }) => changes === k)!;
  const fooled = texts.filter(
    ({ minChanges, provenUpTo }) => minChanges !== null && minChanges <= k && provenUpTo >= 0,
  );
  const correct = texts.filter(({ provenUpTo }) => provenUpTo >= 0).length;
  const { open } = levels[k]!;
  const severity = rateSeverity(correct === 0 ? 0 : fooled.length / correct, [0.01, 0.2, 0.5]);
  const what = `${k} word${k === 1 ? "" : "s"}`;
  return createClaim(
    { id: `exact-${k}`, area: "proven", claim: `No substitution of up to ${what} changes a correct answer.` },
    severity,
    {
      summary:
        `Of ${formatCount(correct)} correct answers, ${formatCount(fooled.length)} change with at most ${what}, and ` +
        `${formatCount(open)} are open. ${formatPercent(level.proven)} of ${formatCount(examples)} texts are proven to stay correct.`,
      domain: `${formatCount(examples)} random texts; every combination of substitutes of up to ${what}`,
      method: "exhaustive enumeration with a proof (temper exact)",
      numbers: { proven: level.proven, notBroken: level.unbroken, open, fooled: fooled.length },
      ids: fooled.map(({ id }) => id),
      texts: fooled.flatMap(({ id, finalTexts, minChanges }) =>
        finalTexts ? [{ id, text: finalTexts.join(" | "), note: `${minChanges} changed` }] : [],
      ),
      ...(severity !== null && suggestHarden(context, "Train a robust model on the same texts.")),
    },
    fooled.length > 0 ? "counterexample" : open > 0 ? "inconclusive" : "proven",
  );
}

/** Certifies the texts with the certificate that the run was trained for. */
export async function checkCertificates(context: AuditContext): Promise<StepResult> {
  const { request, victim, callbacks, task, examples, plan } = context;
  const { device, threads } = request;
  const run = victim.local?.run ?? null;
  if (!run?.certificate) return { claims: [describeMissing(context)] };
  const given = { task, examples: examples.slice(0, plan.exactTexts) };
  const { kind, certified, edits } = await measureCertified(run, given, { device, threads, edits: 1 }, callbacks);
  const fraction = certified / given.examples.length;
  return {
    claims: [
      createClaim(
        {
          id: `certified-${kind}`,
          area: "proven",
          claim: `No edit of ${edits} word changes a correct answer (${kind}).`,
        },
        null,
        {
          summary: `${formatPercent(fraction)} of ${formatCount(given.examples.length)} texts are certified.`,
          domain: `${formatCount(given.examples.length)} random texts; any insertion, deletion or replacement of ${edits} word`,
          method: `certificate ${kind} (temper certify)`,
          numbers: { certified: fraction },
        },
        fraction === 1 ? "proven" : "inconclusive",
      ),
    ],
  };
}

function describeMissing(context: AuditContext): Claim {
  const { remedy, command } = suggestTraining(context, "Train a model for a certificate.", {
    method: "hash-vote",
    out: "runs/voting",
  });
  return createClaim(
    { id: "certificates", area: "proven", claim: "The model has a certificate against word edits." },
    null,
    { summary: "It was not trained for one.", domain: "the model", method: "its run", remedy, command },
  );
}
