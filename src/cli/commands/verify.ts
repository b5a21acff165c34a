import { type Command, Option } from "@commander-js/extra-typings";
import { type JournalHeader, parseHeader, readJournalEntries } from "../../attacks/journal.js";
import { type JournalVerification, verifyJournal } from "../../attacks/verify.js";
import { UserError } from "../../errors.js";
import { formatCount } from "../../format.js";
import { type LoadedVictim, loadVictim } from "../../runs/load-victim.js";
import { resolveTablePath } from "../../runs/read-config.js";
import { filterInVocabSubstitutes, loadSubstitutions, type Substitutions } from "../../text/substitutions.js";
import { createDownloadProgress } from "../download-progress.js";
import { endpointOption, parseEndpointOptions } from "../endpoint-options.js";
import { type Io, write } from "../io.js";
import {
  deviceOption,
  formatHelpExamples,
  jsonOption,
  precisionOption,
  quietOption,
  threadsOption,
} from "../options.js";
import { printJson } from "../output.js";

interface VerifyCommandOptions {
  model: string;
  substitutions?: string | undefined;
  endpoint?: readonly string[] | undefined;
  device?: string | undefined;
  precision?: "bf16" | "tf32" | "fp32" | undefined;
  threads?: number | undefined;
  json?: true | undefined;
  quiet?: true | undefined;
}

/** Half-precision numbers of different machines differ in the second digit. */
const otherPrecisionTolerance = 0.03;

export function define(command: Command, io: Io): void {
  command
    .argument("<journals...>", "journals that `temper attack` wrote")
    .addOption(new Option("--model <reference>", "the model that was attacked, or its address").makeOptionMandatory())
    .option(
      "--substitutions <table>",
      "check too that every edit is one of this table (default: that of the model's run)",
    )
    .addOption(jsonOption("print what was verified as JSON"))
    .addOption(deviceOption())
    .addOption(precisionOption())
    .addOption(threadsOption())
    .addOption(endpointOption())
    .addOption(quietOption())
    .addHelpText(
      "after",
      `\nEvery line is replayed: its edits lead from the original to the final text, and the model gives the probabilities that it claims.\nThe exit code is 0 where all lines hold, 2 where one does not.\n${formatHelpExamples(
        "temper verify runs/sst2-standard-seed0/attacks/pwws.jsonl --model runs/sst2-standard-seed0",
      )}`,
    )
    .action((journals, options) => verify(io, journals, options));
}

async function verify(io: Io, journals: readonly string[], options: VerifyCommandOptions): Promise<void> {
  const done: ({ journal: string } & JournalVerification)[] = [];
  for (const journal of journals) {
    const header = await readHeader(journal);
    const loadedVictim = await loadAttackedVictim(io, header, options);
    try {
      const substitutions = await findSubstitutions(header, loadedVictim, options);
      const same =
        header.settings.precision === loadedVictim.settings.precision && loadedVictim.settings.precision !== "bf16";
      const tolerance = loadedVictim.local && !same ? otherPrecisionTolerance : undefined;
      const verification = await verifyJournal(journal, loadedVictim.victim, { substitutions, tolerance });
      done.push({ journal, ...verification });
      if (!options.json) await write(io.stdout, `${formatVerification(journal, verification, substitutions)}\n`);
    } finally {
      loadedVictim.close();
    }
  }
  if (options.json) await printJson(io, done);
}

async function readHeader(journal: string): Promise<JournalHeader> {
  for await (const entry of readJournalEntries(journal)) return parseHeader(entry, journal);
  throw new UserError(`${journal}: the journal is empty; run the attack again`);
}

/** A model that says nothing of how it reads text is read as it was when it was attacked. */
async function loadAttackedVictim(
  io: Io,
  { settings }: JournalHeader,
  options: VerifyCommandOptions,
): Promise<LoadedVictim> {
  const downloads = createDownloadProgress(io, options.quiet);
  const { encoding, maxLength } = settings;
  return loadVictim(options.model, {
    device: options.device ?? "auto",
    precision: options.precision ?? null,
    threads: options.threads ?? null,
    endpoint: parseEndpointOptions(options.endpoint),
    onDownload: downloads.onProgress,
    ...((encoding === "word" || encoding === "subword") && { encoding }),
    ...(typeof maxLength === "number" && { maxLength }),
  }).finally(downloads.end);
}

/** The table that is named, or the run's where the attack used that one; whole, or of known words, as the attack had it. */
async function findSubstitutions(
  header: JournalHeader,
  { local }: LoadedVictim,
  { substitutions }: VerifyCommandOptions,
): Promise<Substitutions | undefined> {
  const named = substitutions ?? local?.run?.config.substitutions;
  if (!named) return undefined;
  const table = await loadSubstitutions(resolveTablePath(named));
  const forms = local ? [table, filterInVocabSubstitutes(table, local.model.tokenizer)] : [table];
  return (
    forms.find(({ hash }) => hash === header.hashes.substitutions) ?? (substitutions === undefined ? undefined : table)
  );
}

function formatVerification(
  journal: string,
  { header, lines, outcomes }: JournalVerification,
  substitutions: Substitutions | undefined,
): string {
  const edits = substitutions ? `, every edit from ${substitutions.name}` : "";
  return (
    `${journal}: all ${formatCount(lines)} lines of ${header.attack} hold${edits} ` +
    `(${formatCount(outcomes.success)} fooled, ${formatCount(outcomes.failed)} held, ${formatCount(outcomes.skipped)} wrong from the start)`
  );
}
