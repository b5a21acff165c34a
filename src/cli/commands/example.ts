import type { Command } from "@commander-js/extra-typings";
import { exampleNames, exampleRequestSchema, writeExample } from "../../actions/example.js";
import { UserError } from "../../base/errors.js";
import { type Io, write } from "../io.js";
import { addOptions, quietOption } from "../options.js";
import { formatNext, formatPath, printJson } from "../output.js";
import { createCallbacks } from "../progress.js";

export const examples = ["temper example emails.csv", "temper example emails.csv new.csv --out tutorial"];

export function define(command: Command, io: Io): void {
  const { shape } = exampleRequestSchema;
  const withNames = command.argument("<files...>", shape.names.description);
  addOptions(withNames, shape, { out: "<folder>", size: "<count>" })
    .option("--json", "print the paths as JSON")
    .addOption(quietOption())
    .action(async (files, { json, quiet, ...request }) => {
      const names = files.map((file) => {
        const found = exampleNames.find((name) => name === file);
        if (found) return found;
        throw new UserError(`Expected ${exampleNames.join(" or ")}, received ${file}.`);
      });
      const callbacks = createCallbacks(io, quiet);
      const paths = await writeExample({ names, ...request }, callbacks).finally(callbacks.end);
      if (json) return printJson(io, paths);
      await write(io.stdout, paths.map((path) => `${formatPath(path)}\n`).join(""));
      if (!quiet && names[0] === "emails.csv")
        await write(
          io.stdout,
          formatNext(["harden", "--data", paths[0]!, "--text-column", "email", "--label-column", "spam"]),
        );
    });
}
