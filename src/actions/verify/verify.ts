import { dirname, resolve } from "node:path";
import { z } from "zod";
import { httpVictimSchema } from "../../attacks/endpoint.js";
import { type JournalHeader, parseJournalHeader } from "../../attacks/journal.js";
import { type JournalVerification, listClasses, type RepeatedSearches, verifyJournal } from "../../attacks/verify.js";
import { isHeaderOf, isLineFile, parseHeader, readLineEntries } from "../../base/checked-lines.js";
import { UserError } from "../../base/errors.js";
import { type Callbacks, reportProgress } from "../../base/events.js";
import { countSchema, orNull, seedSchema, validate } from "../../base/validate.js";
import type { FileVerification } from "../../base/verification.js";
import {
  certificateFormat,
  describeProof,
  type ProofVerification,
  proofFormat,
  summarizeProof,
  type VerifyProofOptions,
  verifyProof,
} from "../../proofs/index.js";
import { findJournals, getControlFolder, getJournalPath } from "../../runs/attack-folder.js";
import { findCertificateJournals } from "../../runs/certificate-folder.js";
import { findProofs, getExactReportPath } from "../../runs/exact-folder.js";
import { findRunsAt } from "../../runs/expand-journals.js";
import { RunFolder } from "../../runs/run-folder.js";
import { resolveTablePath } from "../../settings/read-config.js";
import { runtimeOptions, searchPrecision } from "../../settings/runtime-config.js";
import type { Example } from "../../tasks/index.js";
import { loadSubstitutions } from "../../text/load-substitutions.js";
import { filterInVocabSubstitutes, matchCaseSensitively, type Substitutions } from "../../text/substitutions.js";
import { attackRequestSchema } from "../attack/attack-request.js";
import { prepareTexts } from "../exact/prepare-exact.js";
import { recipeResourceOptions } from "../load/load-resources.js";
import type { LoadedVictim } from "../load/load-victim.js";
import { type OpenVictim, openVictim } from "../load/open-victim.js";
import { checkAttackReport, checkSummary, summaryClass } from "./check-summary.js";
import { repeatSearches } from "./repeat-searches.js";
import { verifyCertificates } from "./verify-certificates.js";
import { verifyResults } from "./verify-results.js";

export const verifyRequestSchema = z.strictObject({
  journals: z
    .array(z.string())
    .min(1)
    .describe("journals of temper attack, proofs of temper exact, certificates or audits, or runs for all of theirs"),
  model: orNull(z.string(), "that of the journal's run").describe("model that was attacked or certified, or its URL"),
  substitutions: orNull(z.string(), "as in training").describe("check that every edit is in this table"),
  repeat: z
    .int()
    .min(0)
    .default(0)
    .describe("searches of an attack to run again, drawn at random; their outcomes must be the recorded ones"),
  blocks: countSchema.default(100).describe("blocks of a proof to score again, drawn at random"),
  seed: seedSchema.default(0).describe("random seed of the drawn blocks and searches"),
  endpoint: httpVictimSchema.prefault({}),
  ...runtimeOptions,
  precision: searchPrecision,
});
export type VerifyRequest = z.input<typeof verifyRequestSchema>;
type ParsedRequest = z.output<typeof verifyRequestSchema> & { readonly model: string };

/**
 * A journal of which every line was reproduced, or a proof of which random blocks were.
 *
 *     const [first]: Verification[] = await verify({ journals, model: "runs/rose" });
 */
export type Verification = {
  readonly journal: string;
  /** The table that every edit was checked against; null if none. */
  readonly substitutions: string | null;
} & ((JournalVerification & { readonly repeated: RepeatedSearches | null }) | ProofVerification);

const guardSchema = attackRequestSchema.pick({ windows: true, positiveLabel: true, calibrated: true });

/** Logit margins of the same model in float32 may differ by this much between hosts and batch shapes. */
const sameMarginTolerance = 1e-3;
/** The logit margins of other precisions differ by a few percent. */
const otherMarginTolerance = 0.3;
/** Half-precision results of different hosts differ in the second digit. */
const otherPrecisionTolerance = 0.03;

/**
 * Replays journals. Of an attack, the edits lead from the original to the final text, and the model
 * returns the recorded probabilities. This proves that the model is fooled by the texts that fooled
 * it, and that no example is missing. With `repeat`, random searches run again and must end as
 * recorded; without it, nothing is proved about texts that are recorded as robust. Certificates and the
 * test results of runs are computed again. If the attacked `examples` are given, attacks may have been stopped. Throws a UserError at the first line that does not hold.
 *
 *     await verify({ journals: ["runs/rose/attacks/pwws.jsonl"], model: "runs/rose" });
 */
export async function verify(
  request: VerifyRequest,
  callbacks: Callbacks = {},
  examples?: readonly Example[],
): Promise<(Verification | FileVerification)[]> {
  const parsed = validate(verifyRequestSchema, request, "verify");
  const done: (Verification | FileVerification)[] = [];
  const journals = (await Promise.all(parsed.journals.map(listJournals))).flat();
  const { device, threads } = parsed;
  for (const [i, { journal, canRepeat, tested }] of journals.entries()) {
    reportProgress(callbacks, "verify", i, journals.length, "journals");
    if (tested) {
      done.push(...(await verifyResults(tested, { device, threads }, callbacks)));
      continue;
    }
    const model = parsed.model ?? (await findModel(journal));
    const isCertified = await isLineFile(journal, certificateFormat);
    done.push(
      isCertified
        ? await verifyCertificates(journal, model, { device, threads }, callbacks)
        : await verifyOne(journal, { ...parsed, model, ...(!canRepeat && { repeat: 0 }) }, callbacks, examples),
    );
  }
  reportProgress(callbacks, "verify", journals.length, journals.length, "journals");
  return done;
}

interface ListedJournal {
  readonly journal: string;
  /** True if `--repeat` can run its searches again. */
  readonly canRepeat: boolean;
  readonly tested?: RunFolder;
}

async function listJournals(path: string): Promise<ListedJournal[]> {
  const runs = await findRunsAt(path);
  if (runs.length === 0) return [{ journal: path, canRepeat: true }];
  const found: ListedJournal[] = [];
  for (const run of runs) {
    const attacks = run.path("attacks");
    // The attacks that check others, and those that `exact` compares, have no report with the settings of their searches.
    for (const folder of [attacks, getControlFolder(attacks), run.path("exact")])
      for (const name of await findJournals(folder))
        found.push({ journal: getJournalPath(folder, name), canRepeat: folder === attacks });
    const others = [
      ...(await findProofs(run.path("exact"))),
      ...(await findCertificateJournals(run.path("certificates"))),
    ];
    found.push(...others.map((journal) => ({ journal, canRepeat: true })));
    if (await run.results()) found.push({ journal: run.path("results"), canRepeat: false, tested: run });
  }
  if (found.length > 0) return found;
  throw new UserError(
    `${path}: ${runs.length === 1 ? "this run has" : "its runs have"} no result, attack, proof or certificate. Finish it first: temper train --resume ${runs[0]!.folder}`,
  );
}

async function findModel(journal: string): Promise<string> {
  const folder = dirname(dirname(resolve(journal)));
  const run = (await RunFolder.containing(folder)) ?? (await RunFolder.containing(dirname(folder)));
  if (run) return run.folder;
  throw new UserError(`${journal}: this journal is not in a run. Name the model that was attacked: --model FOLDER`);
}

async function verifyOne(
  journal: string,
  request: ParsedRequest,
  callbacks: Callbacks,
  examples?: readonly Example[],
): Promise<Verification> {
  const { header, isProof } = await readHeader(journal);
  if (!isProof && header.hashes.data === undefined)
    throw new UserError(`${journal}: the header has no hash of the attacked examples, so lines may be missing.`);
  const { tokenization, maxLength, precision, searchPrecision: search, guard } = header.settings;
  const { onEvent } = callbacks;
  // The scores of a proof are those of the search.
  const proofPrecision = searchPrecision.safeParse(search ?? precision).data ?? null;
  // A model that does not say how it reads text is read as it was when it was attacked.
  await using victim = await openVictim({
    ...request,
    ...(isProof && { precision: request.precision ?? proofPrecision, isConfirmed: true }),
    ...attackRequestSchema.pick({ tokenization: true }).safeParse({ tokenization }).data,
    ...(typeof maxLength === "number" && { maxLength }),
    ...(guard !== undefined && { guard: validate(guardSchema, guard, `${journal}: settings.guard`) }),
    onEvent,
  });
  const substitutions = await findSubstitutions(header, victim, request);
  if (isProof) {
    const verification = await verifyExact(journal, header, victim, substitutions, request, callbacks);
    return { journal, substitutions: substitutions?.name ?? null, ...verification };
  }
  const isSamePrecision = precision === victim.settings.precision && (precision === "fp32" || precision === "tf32");
  const tolerance = victim.local && !isSamePrecision ? otherPrecisionTolerance : undefined;
  const verification = await verifyJournal(journal, victim.victim, {
    substitutions,
    tolerance,
    exportedFrom: victim.local?.model.session?.exportedFrom,
    examples,
  });
  const repeated = request.repeat > 0 ? await repeatSearches(journal, request, callbacks) : null;
  // The report of an earlier call says nothing about an attack that was stopped.
  const summary = !examples && (await checkAttackReport(journal)) ? [summaryClass] : [];
  const table = header.hashes.substitutions === undefined ? null : { isKnown: substitutions !== undefined };
  const classes = [...listClasses(verification.outcomes, table, repeated ?? undefined), ...summary];
  return { journal, substitutions: substitutions?.name ?? null, ...verification, classes, repeated };
}

async function verifyExact(
  path: string,
  header: JournalHeader,
  victim: OpenVictim,
  substitutions: Substitutions | undefined,
  { blocks, seed }: ParsedRequest,
  callbacks: Callbacks,
): Promise<ProofVerification> {
  const settings = validate(proofSettingsSchema, header.settings, path);
  const { modifiableFields, minContextSimilarity = -1, decidedMargin } = settings;
  const { maxChanges } = validate(proofOptionsSchema, header.options, path);
  const isSame = header.hashes.victim === victim.victim.hash;
  // The margin that low precision does not decide is twice its largest error, so results of two hosts are within it.
  const lowPrecisionTolerance = Math.max(sameMarginTolerance, decidedMargin ?? 0);
  const labels = victim.local?.model.labels ?? [];
  const checkReport = async (verification: ProofVerification): Promise<ProofVerification> => {
    const report = { ...(await summarizeProof(path)), ...(await describeProof(path, victim.victim, labels)) };
    const hasReport = await checkSummary(getExactReportPath(path), report, [
      "textsPerSecond",
      "proof",
      ...(victim.local ? [] : ["degeneracy"]),
    ]);
    return hasReport ? { ...verification, classes: [summaryClass, ...verification.classes] } : verification;
  };
  const check = (listWords?: VerifyProofOptions["listWords"]): Promise<ProofVerification> =>
    verifyProof(
      path,
      { ...victim.victim, ...(decidedMargin !== undefined && victim.victim.changeMargin?.(decidedMargin)) },
      {
        blocks,
        seed,
        substitutionsHash: substitutions?.hash,
        tolerance: isSame ? lowPrecisionTolerance : otherMarginTolerance,
        ...(listWords && { listWords }),
        onBlock: (done, total) => reportProgress(callbacks, "verify blocks", done, total, "blocks"),
      },
    );
  if (!substitutions) return await checkReport(await check());
  const needs = minContextSimilarity > -1 ? (["encoder"] as const) : [];
  const request = { ...z.object(recipeResourceOptions).parse({}), substitutions: substitutions.name };
  const { encoder } = (await victim.loadAttacks([], request, [], needs)).resources;
  const context = encoder && { encoder, minSimilarity: minContextSimilarity };
  const resources = { substitutions, ...(context && { context }) };
  const verification = await check(async (texts) => {
    const examples = texts.map((each) => ({ texts: each }));
    const prepared = await prepareTexts(examples, victim, resources, { modifiableFields, maxChanges });
    return prepared.map(({ words }) => words);
  });
  return await checkReport(verification);
}

const proofSettingsSchema = z.looseObject({
  modifiableFields: z.array(z.int().min(0)),
  minContextSimilarity: z.number().optional(),
  decidedMargin: z.number().min(0).optional(),
});
const proofOptionsSchema = z.looseObject({ maxChanges: z.int().min(0) });

async function readHeader(journal: string): Promise<{ readonly header: JournalHeader; readonly isProof: boolean }> {
  for await (const entry of readLineEntries(journal)) {
    const isProof = isHeaderOf(entry.value, proofFormat);
    return { header: isProof ? parseHeader(entry, journal, proofFormat) : parseJournalHeader(entry, journal), isProof };
  }
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
