import { type Callbacks, reportProgress } from "../../base/events.js";
import { certifyInRounds } from "../../proofs/certificates/index.js";
import type { RunFolder } from "../../runs/run-folder.js";
import type { RuntimeOptions } from "../../settings/runtime-config.js";
import { chooseCertificate } from "../certify.js";
import type { GivenExamples } from "../load/open-victim.js";
import { loadClassifier } from "../predict/text-classifier.js";

/** The number of texts that a model classifies correctly under any such edits. */
export interface CertifiedCount {
  readonly kind: string;
  readonly certified: number;
  readonly edits: number;
}

/** Certifies a run over texts, with the certificate of its training. gate and audit have their numbers from here. */
export async function measureCertified(
  run: RunFolder,
  { task, examples }: GivenExamples,
  { edits, device, threads }: RuntimeOptions & { readonly edits: number },
  callbacks: Callbacks,
): Promise<CertifiedCount> {
  await using classifier = await loadClassifier(run.folder, {
    device,
    threads,
    precision: "fp32",
    onEvent: callbacks.onEvent,
  });
  const { definition } = run.certificate!;
  const options = definition.options.parse({});
  const certificate = await chooseCertificate({ definition, options }, edits, run, classifier, task);
  const lines = [];
  for await (const round of certifyInRounds(certificate, examples, {
    scoreTexts: classifier.score.bind(classifier),
    onProgress: (done) => reportProgress(callbacks, `certify ${definition.name}`, done, examples.length),
  }))
    lines.push(...round.lines);
  const row = certificate.summarize(lines).certified.find(({ substitutions }) => substitutions === edits)!;
  return { kind: definition.name, certified: Math.round(row.accuracy * lines.length), edits };
}
