import type { Command, Option } from "@commander-js/extra-typings";
import type { z } from "zod";
import {
  type AnalysisDefinition,
  type AnalysisRequest,
  type AnalysisResult,
  analyses,
  analyze,
} from "../../analysis/index.js";
import { toFlag } from "../../base/shell.js";
import { formatHelp } from "../command.js";
import type { Io } from "../io.js";
import { createOption, parseNumber, quietOption, readKeySchema } from "../options.js";
import { createCallbacks } from "../progress.js";
import { listenForStop } from "../signals.js";
import { runWork } from "../work.js";

const help: Readonly<Record<string, { readonly note?: string; readonly examples: readonly string[] }>> = {
  distance: { examples: ["runs/imdb-standard-seed0 runs/imdb-ascc-seed0", "runs --by ascc.beta --png"] },
  tradeoff: { examples: ["runs", "runs/imdb-ascc-seed0 runs/imdb-ascc+rift-seed0 --png"] },
  ablation: { examples: ["runs/alpha --by rift.alpha", "runs/gamma --by gamma --json"] },
  geometry: { examples: ["runs/imdb-standard-seed0 runs/imdb-rift-seed0 --png"] },
  landscape: {
    note: "Finished points are kept in landscape.points.jsonl. Run the same command again to continue.",
    examples: [
      "runs/sst2-standard-seed0 runs/sst2-rose-seed0 --pretrained --split train",
      "runs/sst2-rose-seed0 --points 21 --num-examples 64",
    ],
  },
  interpolation: { examples: ["runs/sst2-rose-seed0 runs/sst2-standard-seed0"] },
  preference: { examples: ["runs/rose-fig-3"] },
  consistency: { examples: ["runs/sst2-rose-seed0", "runs/sst2-r-drop-seed0 --steps 50,100,200"] },
};

export const note =
  "Each analysis writes NAME.json and NAME.svg (with --png also NAME.png) into analysis/ of the first run, " +
  "where temper report finds them.";

export const examples = [
  "temper analyze distance runs/imdb-standard-seed0 runs/imdb-ascc-seed0 runs/imdb-ascc+rift-seed0",
  "temper analyze tradeoff runs",
  "temper analyze landscape runs/sst2-standard-seed0 runs/sst2-rose-seed0 --pretrained --png",
];

export function define(command: Command, io: Io): void {
  for (const definition of analyses.values()) defineAnalysisCommand(command, definition, io);
}

function defineAnalysisCommand(command: Command, definition: AnalysisDefinition<string, z.ZodObject>, io: Io): void {
  const { name, summary, request, keeps, unit } = definition;
  const { analysis: _, runs, ...keys } = request.shape as Readonly<Record<string, z.ZodType>>;
  const lines = help[name]!.examples.map((line) => `temper analyze ${name} ${line}`);
  const sub = command
    .command(name)
    .description(summary)
    .showHelpAfterError(`Run \`temper analyze ${name} --help\` for its options.`)
    .argument("<runs...>", runs?.description);
  for (const [key, schema] of Object.entries(keys)) sub.addOption(createAnalysisOption(key, schema));
  sub
    .option("--json", "print the data as JSON")
    .addOption(quietOption())
    .addHelpText("after", formatHelp(lines, help[name]!.note))
    .action(async (runs: string[], { json, quiet, ...options }) => {
      const request = { analysis: name, runs, ...options } as AnalysisRequest;
      const display = createCallbacks(io, quiet === true, unit);
      // An analysis that keeps nothing ends at once, like any other program.
      const stop = keeps === undefined ? null : listenForStop(io);
      await runWork(
        io,
        { display, stop, json: json === true, select: toJson },
        (callbacks) => analyze(request, callbacks),
        ({ summary: found, files: { svg, png, json: data } }) =>
          `${found}\n${[svg, png, data].filter((path) => path !== null).join("  ")}\n`,
      );
    });
}

function toJson({ name, summary, data, files }: AnalysisResult): object {
  return { analysis: name, summary, ...(data as object), files };
}

/**
 * The flag of a key. A list of words is a flag in the singular that can be repeated; numbers are
 * separated by commas. The request checks the range of numbers.
 */
function createAnalysisOption(key: string, schema: z.ZodType): Option {
  const { type, items, ...own } = readKeySchema(schema);
  const isNumber = [type, items?.type].some((each) => each === "number" || each === "integer");
  const choices = items?.enum ?? own.enum;
  const value = isNumber ? (items ? "numbers" : "number") : items && choices ? "name..." : "value";
  const name = toFlag(items && !isNumber ? key.replace(/s$/, "") : key);
  const option = createOption(key, schema, type === "boolean" ? name : `${name} <${value}>`);
  if (choices) option.choices(choices);
  else if (isNumber) option.argParser((words) => (items ? words.split(",").map(parseNumber) : parseNumber(words)));
  return option.makeOptionMandatory(!schema.safeParse(undefined).success);
}
