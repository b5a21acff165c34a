import { z } from "zod";
import { attackSpecSchema } from "../../attacks/load-attack.js";
import { countSchema, orNull, seedSchema } from "../../base/validate.js";
import { dataOptions } from "../../settings/config.js";
import { runtimeOptions } from "../../settings/runtime-config.js";
import { attackRequestSchema } from "../attack/attack-request.js";
import { gatePrecisions } from "./gate-lock.js";

const percentage = z.number().min(0).max(100);

const { minContextSimilarity, queryBudget, endpoint } = attackRequestSchema.shape;
const { device, threads } = runtimeOptions;
const positiveLabel = orNull(z.string(), "as calibrated, else none").describe(
  "label that a guard flags, for its operating points",
);
const split = orNull(z.enum(["train", "validation", "test"]), "the lock's, otherwise test").describe(
  "dataset split to use",
);
const numExamples = orNull(countSchema, "the lock's, otherwise 200").describe("number of texts");
const substitutions = orNull(z.string(), "the lock's, otherwise as in the training of the baseline").describe(
  'word substitutions: "wordnet" or a JSON file',
);
const precision = orNull(z.enum(gatePrecisions), "the lock's, otherwise fp32").describe(
  "precision of the search: int8 (CPU only), bf16, tf32 (GPU only) or fp32",
);

export const gateRequestSchema = z.strictObject({
  model: z
    .string()
    .describe("the candidate: a run folder, a model folder, npm:PACKAGE, a Hugging Face model ID or a URL"),
  baseline: z.string().describe("a run, any other model, or the lock of an earlier gate (FILE.lock)"),
  attacks: orNull(z.array(attackSpecSchema).min(1), "the lock's, otherwise pwws").describe("attacks, such as pwws"),
  seed: orNull(seedSchema, "the lock's, otherwise 0").describe("random seed of the sample and the attacks"),
  maxDrop: percentage
    .default(2)
    .describe("largest drop of accuracy under attack that is allowed, in percentage points"),
  maxCleanDrop: orNull(percentage, "as --max-drop").describe(
    "largest drop of accuracy without an attack, in percentage points",
  ),
  minRobust: orNull(percentage).describe("smallest accuracy under attack that is allowed, in percent"),
  minCertified: orNull(percentage).describe(
    "smallest certified accuracy that is allowed, in percent, for a run that was trained for a certificate",
  ),
  edits: countSchema.max(100).default(1).describe("number of word edits that --min-certified is about"),
  lock: orNull(z.string()).describe("write the texts, the attack and the scores of the baseline to this .lock file"),
  out: z.string().default("gate").describe("folder of the journals, junit.xml, summary.md and gate.json"),
  positiveLabel,
  allowCode: z.boolean().default(false).describe("run the custom attacks (.js) that the lock names"),
  ...dataOptions,
  split,
  numExamples,
  minContextSimilarity,
  queryBudget,
  substitutions,
  device,
  precision,
  threads,
  endpoint,
});
export type ParsedGateRequest = z.output<typeof gateRequestSchema>;
