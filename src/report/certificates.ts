import { readJournal } from "../attacks/journal.js";
import type { AttackFolder } from "../runs/attack-folder.js";
import { type CertificateReport, readCertificateReports } from "../runs/certificate-folder.js";
import type { RunFolder } from "../runs/run-folder.js";

/** Certificates of a run, with attacks on the same model and texts. */
export interface RunCertificates {
  readonly report: CertificateReport;
  /**
   * By attack, in the order of the certified rows: the accuracy if an attacker may only use the
   * texts that this attack found with so many edits. The true accuracy is at most this one.
   */
  readonly attacked: ReadonlyMap<string, readonly (number | null)[]>;
}

/** Reads the certificates of a run. */
export async function readRunCertificates(run: RunFolder, { journals }: AttackFolder): Promise<RunCertificates[]> {
  const reports = await readCertificateReports(run.path("certificates"), await run.labels());
  return Promise.all(
    reports.map(async (report) => {
      const attacked = new Map<string, readonly (number | null)[]>();
      for (const [name, { path, header, finished }] of journals) {
        const certificate = header.settings.certificate as
          | { readonly kind?: unknown; readonly positiveLabel?: unknown }
          | undefined;
        // A model without its vote is another model, and other texts are another sample.
        const isSame = certificate?.kind === report.kind && header.hashes.data === report.data;
        if (finished && isSame) attacked.set(name, await countByEdits(path, report, certificate?.positiveLabel));
      }
      return { report, attacked };
    }),
  );
}

async function countByEdits(
  path: string,
  { guard, certified, examples }: CertificateReport,
  positiveLabel: unknown,
): Promise<(number | null)[]> {
  const wrong: number[] = [];
  let positive = 0;
  for await (const { result } of readJournal(path)) {
    // A guard is evaded, not triggered, so its number is the recall of the positive label.
    if (guard && result.label !== positiveLabel) continue;
    positive++;
    if (result.outcome === "skipped") wrong.push(0);
    else if (result.outcome === "success") wrong.push(result.edits.length);
  }
  if (guard) return certified.map(() => (positive === 0 ? null : 1 - wrong.length / positive));
  return certified.map(({ substitutions }) =>
    // A row of substitutions covers as many edits of any kind.
    substitutions === 0 ? null : 1 - wrong.filter((edits) => edits <= substitutions).length / examples,
  );
}
