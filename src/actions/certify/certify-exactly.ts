import { enumerationName } from "../../proofs/certificates/index.js";
import {
  type CertificateReport,
  lockCertificateFolder,
  writeCertificateReport,
} from "../../runs/certificate-folder.js";
import { RunFolder } from "../../runs/run-folder.js";
import { exact } from "../exact/exact.js";
import { isEndpoint } from "../load/load-victim.js";
import type { CertifyCallbacks, ParsedCertifyRequest } from "./certify-request.js";

/** Substitutions per text. The number of combinations grows with it as a power. */
const defaultSubstitutions = 2;

/** Certifies by enumeration: the table of `temper exact`, beside those of other certificates. */
export async function certifyExactly(
  request: ParsedCertifyRequest,
  callbacks: CertifyCallbacks,
): Promise<CertificateReport> {
  const { model, edits, seed, data, sample, resources, runtime, out: given } = request;
  const report = await exact(
    { model, maxChanges: edits ?? defaultSubstitutions, seed, data, sample, resources, runtime },
    {
      ...callbacks,
      onStart: (done, total) => callbacks.onStart?.(`certify ${enumerationName}`, done, total),
    },
  );
  const [clean, ...levels] = report.exact;
  const certificate: CertificateReport = {
    kind: enumerationName,
    examples: report.examples,
    degeneracy: report.degeneracy,
    clean: clean!.accuracy,
    certified: levels.map(({ changes, accuracy, interval }) => ({
      substitutions: changes,
      insertions: 0,
      accuracy,
      interval,
    })),
    cleanInterval: clean!.interval,
    covers: "substitutions by words of the table, up to the number in the row; other words are not covered",
    confidence: null,
    task: report.task,
    split: report.split,
    data: report.data,
    journal: report.proof,
  };
  const run = isEndpoint(model) ? null : await RunFolder.containing(model);
  const out = given ?? run?.path("certificates");
  if (out === undefined) return certificate;
  const release = lockCertificateFolder(out);
  try {
    await writeCertificateReport(out, certificate);
  } finally {
    release();
  }
  return certificate;
}
