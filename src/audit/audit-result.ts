import { z } from "zod";
import { intervalSchema } from "../evaluation/statistics.js";
import { evaluationResultSchema } from "../runs/results.js";
import { claimSchema } from "./claim.js";
import { auditPlanSchema } from "./plan.js";

export const auditFiles = {
  json: "audit.json",
  page: "audit.html",
  statement: "audit.intoto.json",
  progress: "progress.json",
} as const;

const attackedSchema = z.object({
  accuracy: z.number(),
  examples: z.number(),
  successRate: z.number(),
  /** The class that the attack wants; null if any wrong class will do. */
  target: z.number().nullable(),
  curve: z.array(z.object({ queries: z.number(), accuracy: z.number(), interval: intervalSchema })),
});
export type AttackedModel = z.output<typeof attackedSchema>;

/** audit.json: what was audited, the plan, every claim with its evidence, and what nobody looked at. */
export const auditResultSchema = z.object({
  format: z.literal(1),
  temper: z.string(),
  /** Three sentences. */
  verdict: z.string(),
  /** Hashes of everything that the numbers follow from. */
  subject: z.object({
    model: z.string(),
    modelHash: z.string(),
    data: z.string(),
    dataHash: z.string(),
    trainHash: z.string().nullable(),
    commit: z.string().nullable(),
  }),
  threatModel: z.record(z.string(), z.string()),
  /** Claims that something speaks against, the most severe ones first. */
  findings: z.array(claimSchema),
  claims: z.array(claimSchema),
  /** Accuracy on all texts, and on the attacked texts under the strongest attacks; null if none ran. */
  clean: z.number(),
  underAttack: z.number().nullable(),
  evaluation: evaluationResultSchema,
  attacks: z.record(z.string(), attackedSchema),
  /** Steps that did not fit into the time. */
  notMeasured: z.array(z.string()),
  notCovered: z.array(z.string()),
  plan: auditPlanSchema,
  /** SHA-256 of each file beside audit.json that the claims follow from. */
  files: z.record(z.string(), z.string()),
  request: z.record(z.string(), z.unknown()),
});
export type AuditResult = z.output<typeof auditResultSchema>;
