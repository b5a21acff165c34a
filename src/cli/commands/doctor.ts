import type { Command } from "@commander-js/extra-typings";
import { formatBytes } from "../../format.js";
import { ExitCode } from "../command.js";
import { type Diagnosis, diagnose } from "../diagnosis.js";
import { getColors, type Io, write } from "../io.js";
import { formatHelpExamples, jsonOption } from "../options.js";
import { formatTable, printJson } from "../output.js";

export function define(command: Command, io: Io): void {
  command
    .addOption(jsonOption("the facts as JSON"))
    .addHelpText(
      "after",
      `\nThe exit code is 0 where the engine works, 2 where it does not.\n${formatHelpExamples("temper doctor", "temper doctor --json")}`,
    )
    .action(async ({ json }) => {
      const diagnosis = await diagnose();
      await (json ? printJson(io, diagnosis) : write(io.stdout, formatDiagnosis(diagnosis, io)));
      if (!diagnosis.usable) throw new ExitCode(2);
    });
}

function formatDiagnosis(diagnosis: Diagnosis, io: Io): string {
  const colors = getColors(io.stdout);
  const verdict = diagnosis.usable ? colors.green("The engine works.") : colors.red("The engine does not work.");
  const problems = diagnosis.problems.map(
    ({ fatal, problem, remedy }) => `${fatal ? colors.red("✗") : colors.yellow("!")} ${problem}\n  → ${remedy}\n`,
  );
  return `${formatTable(io.stdout, createRows(diagnosis))}\n\n${problems.join("")}${verdict}\n`;
}

function createRows({ temper, node, platform, addon, engine, cpu, memory, cache }: Diagnosis): [string, string][] {
  return [
    ["Temper", temper],
    ["Node.js", `${node} (${platform})`],
    ...(engine === null ? [] : createEngineRows(engine)),
    ["addon", addon],
    ["CPU", `${cpu.model}, ${cpu.cores} core${cpu.cores === 1 ? "" : "s"}`],
    ["memory", `${formatBytes(memory.availableBytes)} free of ${formatBytes(memory.totalBytes)}`],
    ["cache", cache.folder],
    ["hub's cache", cache.hub],
  ];
}

function createEngineRows(engine: NonNullable<Diagnosis["engine"]>): [string, string][] {
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
