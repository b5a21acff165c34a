import { z } from "zod";
import type { Callbacks } from "../../base/events.js";
import { countSchema, orNull, seedSchema } from "../../base/validate.js";
import { certificateNames } from "../../proofs/certificates/kinds.js";
import { runtimeOptions } from "../../settings/runtime-config.js";
import { attackGroups } from "../attack/attack-request.js";

const substitutions = orNull(z.string()).describe(
  'exact, synonym: word substitutions, "wordnet" (exact only) or a JSON file; null: as in training',
);
const windows = countSchema.max(1000).default(32).describe("windows: maximum words per window");
const positiveLabel = orNull(z.string()).describe("windows: label that the guard must find; null: the second one");
const precision = runtimeOptions.precision.describe(
  "fp32, bf16 or tf32 (GPU only); in lower precision, more texts are near ties, which are not certified; null: fp32",
);

/** What `certify` accepts. */
export const certifyRequestSchema = z.strictObject({
  model: z.string().describe("a run folder"),
  kind: z
    .enum([...certificateNames, "exact"])
    .default("hash-vote")
    .describe(`certificate: ${certificateNames.join(", ")}, exact`),
  seed: seedSchema.default(0).describe("random seed of the sample and of the noise"),
  edits: orNull(countSchema.max(100)).describe(
    "largest number of word edits in the table; null: 5, or 2 substitutions for exact",
  ),
  enumerateDeletions: z
    .boolean()
    .default(false)
    .describe("hash-vote: compute what each deleted word changes, which certifies more and takes ten times as long"),
  alpha: z
    .number()
    .gt(0)
    .lt(0.5)
    .default(0.001)
    .describe("deletion, mask, synonym: probability that the certificate of one text is wrong"),
  maxSamples: countSchema
    .max(1_000_000)
    .default(2000)
    .describe("deletion, mask, synonym: maximum noised texts per text"),
  maskRate: z.number().gt(0).lt(1).default(0.9).describe("mask: fraction of the words that are masked"),
  out: orNull(z.string()).describe("folder of the journal; null: certificates/ in the run folder"),
  resume: z.boolean().default(false).describe("continue the journal in the folder, or extend it to more texts"),
  data: attackGroups.data.prefault({}),
  sample: attackGroups.sample.pick({ split: true, numExamples: true }).prefault({}),
  resources: z.strictObject({ substitutions }).prefault({}),
  guard: z.strictObject({ windows, positiveLabel }).prefault({}),
  runtime: z.strictObject({ ...runtimeOptions, precision }).prefault({}),
});

/**
 * Certificates as data: the run, the kind of certificate and the texts.
 *
 *     const request: CertifyRequest = { model: "runs/voting", sample: { numExamples: 200 } };
 */
export type CertifyRequest = z.input<typeof certifyRequestSchema>;
export type ParsedCertifyRequest = z.output<typeof certifyRequestSchema>;

/** What happens while texts are certified. */
export interface CertifyCallbacks extends Callbacks {
  /** Called before the first text, with the number of texts that are already in the journal. */
  readonly onStart?: (stage: string, done: number, total: number) => void;
}
