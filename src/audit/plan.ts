import { z } from "zod";
import { attackSpecSchema } from "../attacks/load-attack.js";
import { mean } from "../evaluation/statistics.js";
import type { Predictor } from "../models/inference/predictor.js";
import type { Example, Task } from "../tasks/index.js";
import { splitWords } from "../text/words.js";
import type { ParsedAuditRequest } from "./audit-request.js";

/** The sizes of an audit. The same plan gives the same results, however long they take. */
export const auditPlanSchema = z.object({
  minutes: z.number(),
  cleanTexts: z.int(),
  inputTexts: z.int(),
  triggerWords: z.int(),
  attacks: z.array(z.object({ name: z.string(), options: z.record(z.string(), z.unknown()) })),
  attackedTexts: z.int(),
  queryBudget: z.int(),
  /** Texts of the exact evaluation, and the substitutions per text; 0 if it does not fit. */
  exactTexts: z.int(),
  maxChanges: z.int(),
});
export type AuditPlan = z.output<typeof auditPlanSchema>;

/** The fraction of the time that a plan fills: estimates are not exact, and searches wait for their slowest text. */
const usedFraction = 0.7;
/** A search on the host, without the model, is not faster. */
const maxRate = 3000;
/** Fractions of the queries. What is left over is for everything else. */
const parts = { clean: 0.1, triggers: 0.12, attacks: 0.5, exact: 0.18 };
const budgets = [30, 100, 300, 1000, 3000, 10_000];
const [minAttacked, maxAttacked] = [50, 200];
/** Substitutes per word that fit their context, about. */
const substitutes = 3;

/** Texts per second, by the second of two calls: the first one prepares the model. */
export async function measureRate(victim: Predictor, examples: readonly Example[]): Promise<number> {
  const items = victim.prepare(examples.slice(0, 32).map(({ texts }) => texts));
  await victim.predict(items.slice(0, 8));
  const start = performance.now();
  await victim.predict(items);
  return Math.min(maxRate, items.length / Math.max(1e-3, (performance.now() - start) / 1000));
}

export function planAudit(
  request: ParsedAuditRequest,
  { labels }: Pick<Task, "labels">,
  examples: readonly Example[],
  rate: number,
): AuditPlan {
  const { minutes, positiveLabel } = request;
  const queries = usedFraction * 60 * minutes * rate;
  const cleanTexts = Math.min(examples.length, Math.max(200, Math.floor(parts.clean * queries)));
  const specs = ["auto", "charmer"].map((name) => attackSpecSchema.parse(name));
  if (positiveLabel !== null && labels.length === 2) {
    const benignLabel = labels.find((label) => label !== positiveLabel)!;
    specs.push({ ...attackSpecSchema.parse("guard"), options: { benignLabel } });
  }
  const attacks = (request.attacks ?? specs).map(({ name, options }) => ({ name, options }));
  const perAttack = (parts.attacks * queries) / Math.max(1, attacks.length);
  const texts = Math.min(examples.length, minAttacked);
  const queryBudget = request.queryBudget ?? budgets.findLast((budget) => budget * texts <= perAttack) ?? budgets[0]!;
  const affordable = Math.floor(perAttack / queryBudget);
  const words = mean(examples.map((each) => each.texts.reduce((sum, text) => sum + splitWords(text).length, 0)));
  // In the order of the schema, in which the page lists them.
  return auditPlanSchema.parse({
    minutes,
    cleanTexts,
    inputTexts: Math.min(40, Math.max(10, Math.floor((0.05 * queries) / 30))),
    triggerWords: Math.min(30_000, Math.max(1000, Math.floor(parts.triggers * queries))),
    attacks,
    attackedTexts: Math.min(examples.length, request.numExamples ?? Math.min(maxAttacked, Math.max(10, affordable))),
    queryBudget,
    ...planExact(request, parts.exact * queries, words, cleanTexts),
  });
}

/** As many substitutions as fit, with at least ten texts. */
function planExact(
  { maxChanges: wanted }: ParsedAuditRequest,
  queries: number,
  words: number,
  examples: number,
): Pick<AuditPlan, "exactTexts" | "maxChanges"> {
  const single = Math.max(1, substitutes * words);
  const count = (changes: number): number => Math.floor(queries / (single + (changes > 1 ? single ** 2 / 2 : 0)));
  const fitting = [2, 1].find((changes) => count(changes) >= 10) ?? 0;
  const maxChanges = wanted ?? fitting;
  return { maxChanges, exactTexts: maxChanges === 0 ? 0 : Math.min(examples, 100, Math.max(10, count(maxChanges))) };
}
