import { UserError } from "../../errors.js";
import { validate } from "../../validate.js";
import { type JournalHeader, JournalWriter, type LineFormat, parseHeader, readJournalEntries } from "../journal.js";
import { type ProofLine, proofLineSchema } from "./proof-lines.js";

export const proofFormat: LineFormat = { format: "temper exact proof", version: 1 };

/** Whether the first line of a file says that it is a proof. */
export function isProofHeader(value: unknown): boolean {
  return typeof value === "object" && value !== null && "format" in value && value.format === proofFormat.format;
}

/** A proof as it is on disk. */
export interface Proof {
  readonly header: JournalHeader;
  /** The lines of each text, by its index. */
  readonly texts: ReadonlyMap<number, readonly ProofLine[]>;
}

/** Reads a proof. An incomplete or changed line raises a UserError. */
export async function readProof(path: string): Promise<Proof> {
  let header: JournalHeader | undefined;
  const texts = new Map<number, ProofLine[]>();
  for await (const entry of readJournalEntries(path)) {
    if (!header) {
      header = parseHeader(entry, path, proofFormat);
      continue;
    }
    const location = `${path}:${entry.line}`;
    if (entry.value === undefined)
      throw new UserError(
        `${location}: the line does not match its checksum. If a crash truncated it, run the same temper exact ` +
          "command again; otherwise restore the file.",
      );
    const line = validate(proofLineSchema, entry.value, location);
    texts.set(line.index, [...(texts.get(line.index) ?? []), line]);
  }
  if (!header) throw new UserError(`${path}: the proof is empty. Run temper exact again.`);
  return { header, texts };
}

/** Starts a proof, or continues one with the same header. */
export function openProof(path: string, header: JournalHeader): Promise<JournalWriter<ProofLine>> {
  return JournalWriter.open<ProofLine>(path, header, true, () => header, proofFormat);
}
