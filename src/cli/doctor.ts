import type { Command } from "@commander-js/extra-typings";
import { formatBytes } from "../format.js";
import { type Diagnosis, diagnose } from "./diagnosis.js";
import { colorsOf, type Io, write } from "./io.js";
import { examples, jsonOption } from "./options.js";
import { printJson, table } from "./output.js";
import { ExitCode } from "./verb.js";

export function define(command: Command, io: Io): void {
  command
    .addOption(jsonOption("the facts as JSON"))
    .addHelpText(
      "after",
      `\nThe exit code is 0 where the engine works, 2 where it does not.\n${examples("temper doctor", "temper doctor --json")}`,
    )
    .action(async ({ json }) => {
      const diagnosis = await diagnose();
      await (json ? printJson(io, diagnosis) : write(io.stdout, describe(diagnosis, io)));
      if (!diagnosis.usable) throw new ExitCode(2);
    });
}

function describe(diagnosis: Diagnosis, io: Io): string {
  const colors = colorsOf(io.stdout);
  const verdict = diagnosis.usable ? colors.green("The engine works.") : colors.red("The engine does not work.");
  const problems = diagnosis.problems.map(
    ({ fatal, problem, remedy }) => `${fatal ? colors.red("✗") : colors.yellow("!")} ${problem}\n  → ${remedy}\n`,
  );
  return `${table(io.stdout, rows(diagnosis))}\n\n${problems.join("")}${verdict}\n`;
}

function rows({ temper, node, platform, addon, engine, cpu, memory, cache }: Diagnosis): [string, string][] {
  return [
    ["Temper", temper],
    ["Node.js", `${node} (${platform})`],
    ...(engine === null ? [] : engineRows(engine)),
    ["addon", addon],
    ["CPU", `${cpu.model}, ${cpu.cores} core${cpu.cores === 1 ? "" : "s"}`],
    ["memory", `${formatBytes(memory.availableBytes)} free of ${formatBytes(memory.totalBytes)}`],
    ["cache", cache.folder],
    ["hub's cache", cache.hub],
  ];
}

function engineRows(engine: NonNullable<Diagnosis["engine"]>): [string, string][] {
  const gpus = engine.gpus.map(({ name, bytes, capability }, index): [string, string] => [
    `cuda:${index}`,
    `${name}, ${formatBytes(bytes)}, capability ${capability}`,
  ]);
  return [
    ["libtorch", `${engine.libtorch}${engine.cuda ? ", with CUDA" : ", for the CPU"}`],
    ["", engine.library],
    ["BLAS", engine.capability ? `${engine.blas}, ${engine.capability}` : engine.blas],
    ["threads", String(engine.threads)],
    ...(gpus.length > 0 ? gpus : [["GPU", "none"] as [string, string]]),
  ];
}
