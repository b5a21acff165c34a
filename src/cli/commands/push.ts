import type { Command } from "@commander-js/extra-typings";
import { type PushReport, push, pushRequestSchema } from "../../actions/push.js";
import { formatBytes } from "../../base/format.js";
import { type Io, write } from "../io.js";
import { addOptions } from "../options.js";
import { formatTable, printJson } from "../output.js";

export const note =
  "The token is read from HF_TOKEN, the address of the hub from HF_ENDPOINT. A new repository is private. The model " +
  "card (RUN/model/README.md) is written again from the results of the run and its attacks.";
export const examples = [
  "temper push runs/ascc my-name/spam-ascc --dry-run",
  "temper push runs/ascc my-name/spam-ascc --public",
];

export function define(command: Command, io: Io): void {
  const { shape } = pushRequestSchema;
  const withArguments = command
    .argument("<run>", shape.run.description)
    .argument("<repository>", shape.repository.description);
  addOptions(withArguments, shape, ["run", "repository"])
    .option("--json", "print the address, the files and the commit as JSON")
    .action(async (run, repository, { json, ...options }) => {
      const report = await push({ run, repository, ...options });
      await (json ? printJson(io, report) : write(io.stdout, formatReport(io, report)));
    });
}

function formatReport(io: Io, { url, isPrivate, files, commit }: PushReport): string {
  const rows = files.map(({ path, bytes }) => [path, formatBytes(bytes)]);
  const table = formatTable(io.stdout, rows, { head: ["file", "size"], numeric: [1] });
  const visibility = isPrivate ? "private" : "public";
  const last =
    commit === null
      ? `Dry run: nothing was uploaded. This would go to ${url} (${visibility} if it is new).`
      : `Uploaded to ${url} (commit ${commit}).`;
  return `${table}\n\n${last}\n`;
}
