import { type JournalHeader, journalHeaderSchema } from "../../attacks/journal.js";
import { type LineFormat, LineWriter, readCheckedLines, readHeader } from "../../base/checked-lines.js";
import { type ProofLine, proofLineSchema } from "./proof-lines.js";

export const proofFormat: LineFormat<JournalHeader> = {
  format: "temper exact proof",
  version: 2,
  header: journalHeaderSchema,
  parts: ["settings", "hashes"],
};

/** A proof as it is on disk. */
export interface Proof {
  readonly header: JournalHeader;
  /** The lines of each text, by its index. */
  readonly texts: ReadonlyMap<number, readonly ProofLine[]>;
}

/** Reads a proof. An incomplete or changed line raises a UserError. */
export async function readProof(path: string): Promise<Proof> {
  const header = await readHeader(path, proofFormat);
  const texts = new Map<number, ProofLine[]>();
  const lines = readCheckedLines(path, proofFormat, proofLineSchema, "the same temper exact command");
  for await (const { value } of lines) texts.set(value.index, [...(texts.get(value.index) ?? []), value]);
  return { header, texts };
}

/** Starts a proof, or continues one with the same header. */
export function openProof(path: string, header: JournalHeader): Promise<LineWriter<ProofLine>> {
  return LineWriter.open(path, proofFormat, header, true, () => header);
}
