import { UserError } from "../../base/errors.js";
import { type Callbacks, reportProgress } from "../../base/events.js";
import { certifyInRounds } from "../../proofs/certificates/index.js";
import { RunFolder } from "../../runs/run-folder.js";
import type { RuntimeOptions } from "../../settings/runtime-config.js";
import { chooseCertificate } from "../certify/choose-certificate.js";
import { isEndpoint } from "../load/load-victim.js";
import type { GivenExamples } from "../open-victim.js";
import { loadClassifier } from "../predict/text-classifier.js";

/** How many texts of a gate the candidate classifies correctly under any such edits. */
export interface CertifiedCandidate {
  readonly certified: number;
  readonly edits: number;
}

/** The run of a candidate that was trained for a certificate. Others are an error. */
export async function requireCertifiedRun(model: string): Promise<RunFolder> {
  const run = isEndpoint(model) ? null : await RunFolder.containing(model);
  if (run?.certificate) return run;
  throw new UserError(
    `--min-certified: expected a run that was trained for a certificate, received ${run ? model : "another model"}. ` +
      "Train one with --method hash-vote, or leave the option out.",
  );
}

/** Certifies the candidate over the texts of the gate, with the certificate of its training. */
export async function certifyCandidate(
  run: RunFolder,
  { task, examples }: GivenExamples,
  { edits, seed, ...runtime }: RuntimeOptions & { readonly edits: number; readonly seed: number },
  callbacks: Callbacks,
): Promise<CertifiedCandidate> {
  const { device, threads } = runtime;
  await using classifier = await loadClassifier(run.folder, {
    device,
    threads,
    precision: "fp32",
    onEvent: callbacks.onEvent,
  });
  const { definition } = run.certificate!;
  const options = definition.options.parse({});
  const certificate = await chooseCertificate({ definition, options, edits }, run, classifier, task);
  const lines = [];
  for await (const round of certifyInRounds(certificate, examples, {
    seed,
    scoreTexts: (texts) => classifier.score(texts),
  })) {
    lines.push(...round.lines);
    reportProgress(callbacks, `certify ${definition.name}`, lines.length, examples.length);
  }
  const row = certificate.summarize(lines).certified.find(({ substitutions }) => substitutions === edits)!;
  return { certified: Math.round(row.accuracy * lines.length), edits };
}
