import type { Command } from "@commander-js/extra-typings";
import { findTellingEmail, tryRequestSchema } from "../../actions/try/find-telling-email.js";
import { formatCount, formatDuration } from "../../base/format.js";
import type { Io } from "../io.js";
import { addOptions, quietOption } from "../options.js";
import { formatNext } from "../output.js";
import { createCallbacks } from "../progress.js";
import { formatSideBySide } from "../side-by-side.js";
import { runWork } from "../work.js";

export const note =
  "Both filters were trained on the same emails, the robust one with ASCC. Neither has seen the attacked email, and " +
  "the search is live. Needs neither libtorch nor Python. If temper-nlp-demo is missing, npm downloads it.";
export const examples = ["temper try", "temper try --seed 3"];

export function define(command: Command, io: Io): void {
  addOptions(command, tryRequestSchema.shape)
    .option("--json", "print the attacks on both filters as JSON")
    .addOption(quietOption())
    .action(({ json, quiet, ...request }) =>
      runWork(
        io,
        { display: createCallbacks(io, quiet), json },
        (callbacks) => {
          callbacks.printLine(
            "Two small spam filters, a standard and a robust one. Which spam passes only one of them?",
          );
          return findTellingEmail(request, callbacks);
        },
        ({ id, labels, attack, tried, seconds, standard, robust }) =>
          `\n${id}, after ${formatCount(tried)} ${tried === 1 ? "email" : "emails"} in ` +
          `${formatDuration(1000 * seconds)} (${attack}: WordNet synonyms)\n` +
          formatSideBySide(io.stdout, labels, { standard, robust }) +
          formatNext(["harden", "--data", "yours.csv"]),
      ),
    );
}
