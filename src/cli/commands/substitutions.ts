import type { Command } from "@commander-js/extra-typings";
import { buildLmConstraint, buildLmConstraintRequestSchema } from "../../actions/substitutions/build-lm-constraint.js";
import { substitutions, substitutionsRequestSchema } from "../../actions/substitutions/substitutions.js";
import { formatCount, formatPercent } from "../../base/format.js";
import { formatHelp } from "../command.js";
import type { Io } from "../io.js";
import { addOptions, quietOption } from "../options.js";
import { createCallbacks } from "../progress.js";
import { listenForStop } from "../signals.js";
import { runWork } from "../work.js";

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
  addOptions(build, shape, ["vectors"], { out: "--out <file>" })
    .option("--json", "print the result as JSON")
    .addOption(quietOption())
    .addHelpText("after", formatHelp([buildExample], "Run the same command again to continue a stopped one."))
    .action(({ json, quiet, ...request }) =>
      runWork(
        io,
        { display: createCallbacks(io, quiet, "texts"), stop: listenForStop(io), json },
        (callbacks) => substitutions(request, callbacks),
        ({ out, words, wordsWithSubstitutes }) =>
          `${out}: ${formatCount(words)} words, ${formatCount(wordsWithSubstitutes)} with substitutes\n`,
      ),
    );
}

function defineLmConstraint(command: Command, io: Io): void {
  const { shape } = buildLmConstraintRequestSchema;
  const constraint = command
    .command("lm-constraint")
    .description("build the file of the substitutes that a language model allows, for the genetic attack")
    .showHelpAfterError("Run `temper substitutions lm-constraint --help` to see its options.")
    .requiredOption("--out <file>", shape.out.description);
  addOptions(constraint, shape, ["out"])
    .option("--json", "print the result as JSON")
    .addOption(quietOption())
    .addHelpText(
      "after",
      formatHelp([constraintExample, maskedExample], "Run the same command again to continue a stopped one."),
    )
    .action(({ json, quiet, ...request }) =>
      runWork(
        io,
        { display: createCallbacks(io, quiet, "texts"), stop: listenForStop(io), json },
        (callbacks) => buildLmConstraint(request, callbacks),
        ({ out, texts, scored, allowed }) =>
          `${out}: ${formatCount(texts)} texts; ${formatPercent(scored === 0 ? 0 : allowed / scored)} of the substitutes are allowed\n`,
      ),
    );
}
