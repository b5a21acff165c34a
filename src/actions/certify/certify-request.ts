import { z } from "zod";
import type { Callbacks } from "../../base/events.js";
import { parseSpec } from "../../base/spec.js";
import { countSchema, orNull, seedSchema, validate } from "../../base/validate.js";
import { type CertificateDefinition, certificates, findCertificate } from "../../proofs/certificates/index.js";
import { dataOptions } from "../../settings/config.js";
import { runtimeOptions } from "../../settings/runtime-config.js";
import { attackRequestSchema } from "../attack/attack-request.js";

const namedSchema = z.string().transform((text) => {
  const { name, options } = parseSpec(text, "--kind");
  return { definition: findCertificate(name, "--kind"), options };
});
const definedSchema = z.strictObject({
  definition: z.custom<CertificateDefinition>(
    (value) => typeof value === "object" && value !== null && "create" in value,
  ),
  options: z.record(z.string(), z.unknown()).default({}),
});
const kindSchema = z
  .union([namedSchema, definedSchema], {
    error: 'expected a certificate ("hash-vote", "deletion:alpha=0.01") or { definition, options }',
  })
  .transform(({ definition, options }) => ({
    definition,
    options: validate(definition.options, options, `--kind ${definition.name}`),
  }));
const precision = runtimeOptions.precision
  .meta({ whenNull: "fp32" })
  .describe("fp32, bf16 or tf32 (GPU only); in lower precision, more texts are near ties, which are not certified");

/** What `certify` accepts. */
export const certifyRequestSchema = z.strictObject({
  model: z.string().describe("a run folder"),
  kind: kindSchema
    .prefault("hash-vote")
    .describe(`certificate with its options: ${[...certificates.keys()].join(", ")}`),
  seed: seedSchema.default(0).describe("random seed of the sample and of the noise"),
  edits: countSchema.max(100).default(5).describe("largest number of word edits in the table"),
  out: orNull(z.string(), "certificates/ in the run folder").describe("folder of the journal"),
  resume: z.boolean().default(false).describe("continue the journal in the folder, or extend it to more texts"),
  ...dataOptions,
  split: attackRequestSchema.shape.split,
  numExamples: attackRequestSchema.shape.numExamples,
  ...runtimeOptions,
  precision,
});

/**
 * Certificates as data: the run, the kind of certificate and the texts.
 *
 *     const request: CertifyRequest = { model: "runs/voting", numExamples: 200 };
 */
export type CertifyRequest = z.input<typeof certifyRequestSchema>;

/** What happens while texts are certified. */
export interface CertifyCallbacks extends Callbacks {
  /** Called before the first text, with the number of texts that are already in the journal. */
  readonly onStart?: (stage: string, done: number, total: number) => void;
}
