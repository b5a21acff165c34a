import type { Command } from "@commander-js/extra-typings";
import { buildLmConstraint, buildLmConstraintRequestSchema } from "../../actions/substitutions/build-lm-constraint.js";
import { substitutions, substitutionsRequestSchema } from "../../actions/substitutions/substitutions.js";
import type { Callbacks } from "../../base/events.js";
import { formatCount, formatPercent } from "../../base/format.js";
import { interruptedExitCode, onStopSignals } from "../../base/processes.js";
import { formatCommandLine } from "../../base/shell.js";
import { Interrupted } from "../../train/index.js";
import { ExitCode, formatHelp } from "../command.js";
import { type Io, write } from "../io.js";
import { addOptions, quietOption } from "../options.js";
import { printJson } from "../output.js";
import { createCallbacks } from "../progress.js";

export const note = "The experiments of the papers find both files by name in substitutions/ of the data folder.";

const buildExample = "temper substitutions build --vectors counter-fitted-vectors.txt";
const constraintExample =
  "temper substitutions lm-constraint --scores imdb_test_lm_scores.txt --out data/substitutions/imdb_test.lm.json";
const maskedExample =
  "temper substitutions lm-constraint --masked-lm roberta-base --data texts.txt --substitutions wordnet --out lm.json";
export const examples = [buildExample, constraintExample, maskedExample];

export function define(command: Command, io: Io): void {
  defineBuild(command, io);
  defineLmConstraint(command, io);
}

function defineBuild(command: Command, io: Io): void {
  const { shape } = substitutionsRequestSchema;
  const build = command
    .command("build")
    .description("build a substitution table from word vectors, such as counter-fitted vectors")
    .showHelpAfterError("Run `temper substitutions build --help` to see its options.")
    .requiredOption("--vectors <file>", shape.vectors.description);
  addOptions(build, shape, {
    vocabulary: "<file>",
    maxNeighbors: "<count>",
    maxDistance: "<number>",
    out: "<file>",
    threads: "<count>",
  })
    .option("--json", "print the result as JSON")
    .addOption(quietOption())
    .addHelpText("after", formatHelp([buildExample], "Run the same command again to continue a stopped one."))
    .action(async ({ json, quiet, ...request }) => {
      const built = await runUntilStopped(io, quiet, (callbacks) => substitutions(request, callbacks));
      const { out, words, wordsWithSubstitutes } = built;
      if (json) return printJson(io, built);
      const counts = `${formatCount(words)} words, ${formatCount(wordsWithSubstitutes)} with substitutes`;
      await write(io.stdout, `${out}: ${counts}\n`);
    });
}

function defineLmConstraint(command: Command, io: Io): void {
  const { shape } = buildLmConstraintRequestSchema;
  const constraint = command
    .command("lm-constraint")
    .description("build the file of the substitutes that a language model allows, for the genetic attack")
    .showHelpAfterError("Run `temper substitutions lm-constraint --help` to see its options.")
    .requiredOption("--out <file>", shape.out.description);
  addOptions(constraint, shape, {
    scores: "<file>",
    maskedLm: "<model>",
    data: "<file>",
    substitutions: "<table>",
    minDifference: "<number>",
    maxLength: "<tokens>",
    device: "<name>",
    threads: "<count>",
  })
    .option("--json", "print the result as JSON")
    .addOption(quietOption())
    .addHelpText(
      "after",
      formatHelp([constraintExample, maskedExample], "Run the same command again to continue a stopped one."),
    )
    .action(async ({ json, quiet, ...request }) => {
      const built = await runUntilStopped(io, quiet, (callbacks) => buildLmConstraint(request, callbacks));
      const { out, texts, scored, allowed } = built;
      if (json) return printJson(io, built);
      const rate = formatPercent(scored === 0 ? 0 : allowed / scored);
      await write(io.stdout, `${out}: ${formatCount(texts)} texts; ${rate} of the substitutes are allowed\n`);
    });
}

/** Units of the stages, if they do not count texts. */
const stageUnits: Readonly<Record<string, string>> = { read: "bytes", scores: "bytes", neighbors: "words" };

/** Runs a function that keeps finished work when it is stopped. */
async function runUntilStopped<T>(
  io: Io,
  quiet: boolean | undefined,
  work: (callbacks: Callbacks) => Promise<T>,
): Promise<T> {
  const stop = new AbortController();
  const progress = createCallbacks(io, quiet, "texts");
  const unlisten = onStopSignals(() => (stop.signal.aborted ? process.exit(interruptedExitCode) : stop.abort()));
  let current = "";
  try {
    return await work({
      onEvent(event) {
        if (event.type === "progress" && event.stage !== current) {
          current = event.stage;
          progress.start(current, 0, event.total, stageUnits[current] ?? "texts");
        }
        progress.onEvent(event);
      },
      signal: stop.signal,
    });
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error;
    progress.end();
    io.stderr.write(`\n${error.message}\nContinue with: ${formatCommandLine(["temper", ...process.argv.slice(2)])}\n`);
    throw new ExitCode(interruptedExitCode);
  } finally {
    progress.end();
    unlisten();
  }
}
