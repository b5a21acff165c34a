import { z } from "zod";
import { httpVictimSchema } from "../../attacks/endpoint.js";
import { type JournalHeader, parseHeader, readJournalEntries } from "../../attacks/journal.js";
import { type JournalVerification, verifyJournal } from "../../attacks/verify.js";
import { UserError } from "../../errors.js";
import { type Callbacks, reportProgress } from "../../events.js";
import { resolveTablePath } from "../../runs/read-config.js";
import { runtimeOptions } from "../../runs/runtime-config.js";
import { loadSubstitutions } from "../../text/load-substitutions.js";
import { filterInVocabSubstitutes, matchCaseSensitively, type Substitutions } from "../../text/substitutions.js";
import { orNull, validate } from "../../validate.js";
import { type LoadedVictim, loadVictim } from "../load/load-victim.js";

/** What `verify` accepts. */
export const verifyRequestSchema = z.strictObject({
  journals: z.array(z.string()).min(1).describe("journals written by temper attack"),
  model: z.string().describe("model that was attacked, or its URL"),
  substitutions: orNull(z.string()).describe("check that every edit is in this table; null: as in training"),
  endpoint: httpVictimSchema.prefault({}),
  ...runtimeOptions,
});
export type VerifyRequest = z.input<typeof verifyRequestSchema>;
type ParsedRequest = z.output<typeof verifyRequestSchema>;

/**
 * A journal of which every line was reproduced.
 *
 *     const [first]: Verification[] = await verify({ journals, model: "runs/rose" });
 */
export interface Verification extends JournalVerification {
  readonly journal: string;
  /** The table that every edit was checked against; null if none. */
  readonly substitutions: string | null;
}

/** Half-precision results of different hosts differ in the second digit. */
const otherPrecisionTolerance = 0.03;

/**
 * Replays attack journals: the edits lead from the original to the final text, and the model
 * returns the recorded probabilities. This proves that the model is fooled by the texts that fooled
 * it, and that no example is missing. It does not repeat the searches, so it does not prove that a
 * text marked as robust is. Throws a UserError at the first line that does not hold.
 *
 *     await verify({ journals: ["runs/rose/attacks/pwws.jsonl"], model: "runs/rose" });
 */
export async function verify(request: VerifyRequest, callbacks: Callbacks = {}): Promise<Verification[]> {
  const parsed = validate(verifyRequestSchema, request, "verify");
  const done: Verification[] = [];
  for (const journal of parsed.journals) {
    reportProgress(callbacks, "verify", done.length, parsed.journals.length);
    done.push(await verifyOne(journal, parsed, callbacks));
  }
  return done;
}

async function verifyOne(journal: string, request: ParsedRequest, { onEvent }: Callbacks): Promise<Verification> {
  const header = await readHeader(journal);
  if (header.hashes.data === undefined)
    throw new UserError(`${journal}: the header has no hash of the attacked examples, so lines may be missing.`);
  const { tokenization, maxLength, precision } = header.settings;
  // A model that does not say how it reads text is read as it was when it was attacked.
  const victim = await loadVictim(request.model, {
    ...request,
    ...((tokenization === "word" || tokenization === "subword") && { tokenization }),
    ...(typeof maxLength === "number" && { maxLength }),
    onEvent,
  });
  try {
    const substitutions = await findSubstitutions(header, victim, request);
    const isSamePrecision = precision === victim.settings.precision && precision !== "bf16";
    const tolerance = victim.local && !isSamePrecision ? otherPrecisionTolerance : undefined;
    // What a journal records belongs to the float32 model, if low precision only searched.
    const verification = await verifyJournal(journal, victim.victim.exact ?? victim.victim, {
      substitutions,
      tolerance,
    });
    return { journal, substitutions: substitutions?.name ?? null, ...verification };
  } finally {
    victim.close();
  }
}

async function readHeader(journal: string): Promise<JournalHeader> {
  for await (const entry of readJournalEntries(journal)) return parseHeader(entry, journal);
  throw new UserError(`${journal}: the journal is empty. Run the attack again.`);
}

/**
 * The named table, or the run's if the attack used it; complete, case-sensitive or in-vocabulary
 * only, as in the attack.
 */
async function findSubstitutions(
  header: JournalHeader,
  { local }: LoadedVictim,
  { substitutions }: ParsedRequest,
): Promise<Substitutions | undefined> {
  const source = substitutions ?? local?.run?.config.substitutions;
  if (!source) return undefined;
  const table = await loadSubstitutions(resolveTablePath(source));
  const variants = [table, matchCaseSensitively(table)].flatMap((each) =>
    local ? [each, filterInVocabSubstitutes(each, local.model.tokenizer)] : [each],
  );
  const used = variants.find(({ hash }) => hash === header.hashes.substitutions);
  return used ?? (substitutions === null ? undefined : table);
}
