import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type JournalHeader, readJournal } from "../../attacks/journal.js";
import type { AttackResult } from "../../attacks/result.js";
import type { RepeatedSearches } from "../../attacks/verify.js";
import { checkSameHeader } from "../../base/checked-lines.js";
import { UserError } from "../../base/errors.js";
import type { Callbacks } from "../../base/events.js";
import { Rng } from "../../base/rng.js";
import { isModulePath } from "../../base/trust.js";
import { findDifference } from "../../base/verification.js";
import { getJournalPath, readAttackReport } from "../../runs/attack-folder.js";
import { hashExamples } from "../../runs/environment.js";
import type { RuntimeOptions } from "../../settings/runtime-config.js";
import { createTask } from "../../tasks/task.js";
import { attack } from "../attack/attack.js";
import { type AttackRequest, attackRequestSchema, toBudgetKeys } from "../attack/attack-request.js";

interface RepeatOptions extends Pick<RuntimeOptions, "device" | "threads"> {
  readonly model: string;
  readonly endpoint: object;
  readonly repeat: number;
  readonly seed: number;
}

interface RecordedSearch {
  readonly line: number;
  readonly result: AttackResult;
}

/**
 * Runs random searches of a journal again: the attack, options and seed are those of its header, and
 * the other settings those of report.json beside it. The new header must be equal, so a changed
 * report is noticed. A UserError names the first search with another outcome.
 */
export async function repeatSearches(
  journal: string,
  { model, endpoint, repeat, seed, device, threads }: RepeatOptions,
  callbacks: Callbacks,
): Promise<RepeatedSearches> {
  const { header, searches } = await readSearches(journal);
  const drawn = draw(searches, repeat, seed);
  const [first] = drawn;
  if (!first) return { searches: 0, robust: 0, identical: 0 };
  if (isModulePath(header.attack))
    throw new UserError(`${journal}: ${header.attack} is code, and code that a file names does not run.`);
  const report = await readAttackReport(dirname(journal));
  if (!report)
    throw new UserError(
      `${journal}: expected report.json beside it, which has the settings to repeat its searches. Attack again with ` +
        "the same --seed instead, and compare the journals.",
    );
  const { settings } = header;
  const examples = drawn.map(({ result: { id, texts, label } }) => ({ id, texts, label }));
  const task = createTask({
    name: report.task,
    labels: report.labels,
    fields: first.result.texts.map((_, field) => `text ${field + 1}`),
    modifiableFields: settings.modifiableFields as number[] | undefined,
    read: { test: async () => examples },
  });
  const out = await mkdtemp(join(tmpdir(), "temper-verify-"));
  try {
    // Requests of earlier versions have other keys.
    const known = Object.entries(report.request).filter(([key]) => key in attackRequestSchema.shape);
    const repeated = {
      ...Object.fromEntries(known),
      // No other file is written.
      saveDataset: null,
      model,
      out,
      resume: false,
      transferFrom: [],
      attacks: [{ name: header.attack, options: header.options }],
      seed: header.seed,
      ...toBudgetKeys(settings.budget),
      device,
      threads,
      endpoint,
      precision: settings.searchPrecision ?? settings.precision ?? null,
      // The scores of an earlier search prove nothing.
      cache: false,
    };
    await attack(repeated as unknown as AttackRequest, callbacks, { task, examples });
    const hashes = { ...header.hashes, data: hashExamples(examples) };
    const found = await readSearches(getJournalPath(out, header.attack));
    const expected = { ...header, examples: examples.length, hashes };
    checkSameHeader(expected, found.header, ["settings", "hashes"], journal, "Verify with it");
    return compareSearches(journal, drawn, new Map(found.searches.map(({ result }) => [result.id, result])));
  } finally {
    await rm(out, { recursive: true, force: true });
  }
}

/** The lines of a journal with a search: misclassified texts have none. */
async function readSearches(
  journal: string,
): Promise<{ readonly header: JournalHeader; readonly searches: readonly RecordedSearch[] }> {
  const searches: RecordedSearch[] = [];
  let found: JournalHeader | undefined;
  for await (const { header, line, result } of readJournal(journal)) {
    found = header;
    if (result.outcome !== "skipped") searches.push({ line, result });
  }
  if (!found) throw new UserError(`${journal}: the journal has no results yet. Continue it with --resume.`);
  return { header: found, searches };
}

/** Draws searches without replacement, in the order of the journal. */
function draw(searches: readonly RecordedSearch[], count: number, seed: number): RecordedSearch[] {
  const left = [...searches];
  const rng = new Rng(seed).fork("repeat");
  while (left.length > count) left.splice(rng.integer(left.length), 1);
  return left;
}

function compareSearches(
  journal: string,
  drawn: readonly RecordedSearch[],
  repeated: ReadonlyMap<string, AttackResult>,
): RepeatedSearches {
  let identical = 0;
  for (const { line, result } of drawn) {
    const now = repeated.get(result.id);
    if (now?.outcome !== result.outcome)
      throw new UserError(
        `${journal}:${line}: the journal records "${result.outcome}" after ${result.queries} queries, but the same ` +
          `search ends with "${now?.outcome ?? "skipped"}"${now ? ` after ${now.queries}` : ""}.`,
      );
    // The last digit of a probability may be another one.
    const { before, after } = result;
    if (findDifference(result, [{ ...now, before, after }]) === null) identical++;
  }
  const robust = drawn.filter(({ result }) => result.outcome === "failed").length;
  return { searches: drawn.length, robust, identical };
}
