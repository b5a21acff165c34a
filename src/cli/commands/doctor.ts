import type { Command } from "@commander-js/extra-typings";
import { type Diagnosis, doctor, type EngineInfo } from "../../actions/doctor.js";
import { formatBytes } from "../../base/format.js";
import { lowPrecisions, type PrecisionVerdict } from "../../tensor/precision-verdict.js";
import { ExitCode } from "../command.js";
import { getColors, type Io, write } from "../io.js";
import { formatTable, printJson } from "../output.js";

export const note =
  "The exit code is 0 if the installation works, and 2 if it does not or if only exported models work.";
export const examples = ["temper doctor", "temper doctor --json"];

export function define(command: Command, io: Io): void {
  command.option("--json", "print the result as JSON").action(async ({ json }) => {
    const diagnosis = await doctor();
    await (json ? printJson(io, diagnosis) : write(io.stdout, formatDiagnosis(diagnosis, io)));
    if (!diagnosis.usable) throw new ExitCode(2);
  });
}

function formatDiagnosis(diagnosis: Diagnosis, io: Io): string {
  const { green, red, yellow } = getColors(io.stdout);
  const { temper, node, platform, addon, engine, onnxRuntime, cpu, memory, cache, problems, usable } = diagnosis;
  const rows: [string, string][] = [
    ["Temper", temper],
    ["Node.js", `${node} (${platform})`],
    ...(engine ? listEngineRows(engine) : []),
    ["addon", addon],
    ...(onnxRuntime === null ? [] : [["ONNX Runtime", onnxRuntime] as [string, string]]),
    ["CPU", `${cpu.model}, ${cpu.cores} core${cpu.cores === 1 ? "" : "s"}`],
    ["memory", `${formatBytes(memory.availableBytes)} free of ${formatBytes(memory.totalBytes)}`],
    ["cache", cache.folder],
    ["Hugging Face cache", cache.hub],
  ];
  const found = problems.map(
    ({ fatal, problem, remedy }) => `${fatal ? red("✗") : yellow("!")} ${problem}\n  → ${remedy}\n`,
  );
  const broken =
    onnxRuntime === null ? "The installation does not work." : "Exported (ONNX) models work. The rest does not.";
  const verdict = usable ? green("The installation works.") : red(broken);
  return `${formatTable(io.stdout, rows)}\n\n${found.join("")}${verdict}\n`;
}

function listEngineRows(engine: EngineInfo): [string, string][] {
  const { libtorch, cuda, library, blas, capability, isaLimit, hasBrokenAmx, lowPrecision, auto, threads, gpus } =
    engine;
  const limit = isaLimit === null ? "all that the CPU reports" : `up to ${isaLimit}`;
  const reason = hasBrokenAmx ? "; the CPU reports AMX without tile palettes, as some virtual machines do" : "";
  return [
    ["libtorch", `${libtorch}${cuda ? ", with CUDA" : ", CPU only"}`],
    ["", library],
    ["BLAS", capability ? `${blas}, ${capability}` : blas],
    ["instructions", `${limit}${reason}`],
    ...lowPrecisions.map((precision): [string, string] => [precision, formatVerdict(lowPrecision[precision])]),
    [
      "precision auto",
      `${auto.search} for attacks, ${auto.inference} for inference, ${auto.training} for training (on the CPU)`,
    ],
    ["threads", String(threads)],
    ...(gpus.length === 0 ? [["GPU", "none"] as [string, string]] : []),
    ...gpus.map(({ name, bytes, capability: version }, index): [string, string] => [
      `cuda:${index}`,
      `${name}, ${formatBytes(bytes)}, compute capability ${version}`,
    ]),
  ];
}

function formatVerdict({ failure, ...speeds }: PrecisionVerdict): string {
  if (failure !== null) return `off: in the self-test, ${failure}`;
  const found = Object.entries(speeds).flatMap(([use, speed]) =>
    speed === null ? [] : [`${speed.toFixed(1)}x in ${use}`],
  );
  return `works; speed compared with fp32: ${found.join(", ")}`;
}
