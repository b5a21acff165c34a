import { basename } from "node:path";
import { sha256File } from "../base/files.js";
import type { AuditResult } from "./audit-result.js";

/**
 * The audit as an in-toto statement with the test-result predicate (in-toto/attestation, spec v1). Its subject is
 * the model, and its configuration the data and audit.json. `cosign` and `ssh-keygen -Y sign` sign the file.
 */
export async function createStatement(result: AuditResult, path: string) {
  const { subject, claims, findings, temper } = result;
  const select = (isChosen: (claim: AuditResult["claims"][number]) => boolean): string[] =>
    claims.filter(isChosen).map(({ id }) => id);
  const isFailed = findings.some(({ severity }) => severity === "high");
  return {
    _type: "https://in-toto.io/Statement/v1",
    subject: [{ name: subject.model, digest: { sha256: subject.modelHash } }],
    predicateType: "https://in-toto.io/attestation/test-result/v0.1",
    predicate: {
      result: isFailed ? "FAILED" : findings.length > 0 ? "WARNED" : "PASSED",
      configuration: [
        { name: subject.data, digest: { sha256: subject.dataHash } },
        { name: basename(path), digest: { sha256: await sha256File(path) }, annotations: { temper } },
      ],
      passedTests: select(({ severity }) => severity === null),
      warnedTests: select(({ severity }) => severity === "low" || severity === "medium"),
      failedTests: select(({ severity }) => severity === "high"),
    },
  };
}
