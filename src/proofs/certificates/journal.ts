import { z } from "zod";
import { type LineFormat, readCheckedLines } from "../../base/checked-lines.js";
import { type Certificate, type CertificateLine, certificateOptionsSchema } from "./define-certificate.js";

const headerSchema = z.object({
  /** The kind and the options of the certificate, so that the journal can be replayed. */
  certificate: certificateOptionsSchema,
  /** SHA-256 of model, tokenizer and examples. */
  hashes: z.record(z.string(), z.string()),
  /** Everything else that decides the results: task, split, precision. */
  settings: z.record(z.string(), z.unknown()),
  seed: z.number(),
  examples: z.int().min(1),
});

/**
 * Everything that decides the lines of a journal. A journal is continued only with the same header.
 */
export type CertificateHeader = z.output<typeof headerSchema>;

/** The format of journals of certificates. */
export const certificateFormat: LineFormat<CertificateHeader> = {
  format: "temper certificate journal",
  version: 1,
  header: headerSchema,
  parts: ["settings", "certificate", "hashes"],
};

/** Reads the lines of a journal in order. Each is checked against its checksum and the certificate. */
export async function readCertificates(path: string, { lineSchema }: Certificate): Promise<CertificateLine[]> {
  const found: CertificateLine[] = [];
  const lines = readCheckedLines(path, certificateFormat, lineSchema, "temper certify … --resume");
  for await (const { value } of lines) found.push(value);
  return found;
}
