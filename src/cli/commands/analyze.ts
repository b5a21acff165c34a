import { type Command, Option } from "@commander-js/extra-typings";
import { z } from "zod";
import { type AnalysisDefinition, type AnalysisRequest, analyses, analyze } from "../../analysis/index.js";
import { formatCommandLine } from "../../shell.js";
import { Interrupted } from "../../train/index.js";
import { ExitCode, interruptedExitCode } from "../command.js";
import { type Io, write } from "../io.js";
import { appendValue, formatHelpExamples, jsonOption, parseNumber, quietOption } from "../options.js";
import { printJson } from "../output.js";
import { createCallbacks } from "../progress.js";
import { onStopSignals } from "../signals.js";

/** What follows the options in the help of an analysis. */
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
  probe: {
    note: "Finished runs are kept in probe.runs.jsonl. Run the same command again to continue.",
    examples: ["roberta-base --method standard --method rose:variant=first --data data/msgs"],
  },
  consistency: {
    note: "Runs of r-drop and rose logged the rate during training. Other runs train their first steps again.",
    examples: ["runs/sst2-rose-seed0", "runs/sst2-standard-seed0 --steps 50,100,200"],
  },
};

const note =
  "Each analysis writes NAME.json and NAME.svg (with --png also NAME.png) into analysis/ of the first run, " +
  "where temper report finds them.";

export function define(command: Command, io: Io): void {
  for (const definition of analyses.values()) defineAnalysisCommand(command, definition, io);
  command.addHelpText(
    "after",
    `\n${note}\n${formatHelpExamples(
      "temper analyze distance runs/imdb-standard-seed0 runs/imdb-ascc-seed0 runs/imdb-ascc+rift-seed0",
      "temper analyze tradeoff runs",
      "temper analyze landscape runs/sst2-standard-seed0 runs/sst2-rose-seed0 --pretrained --png",
    )}`,
  );
}

function defineAnalysisCommand(
  command: Command,
  { name, summary, unit, keeps, request }: AnalysisDefinition,
  io: Io,
): void {
  const { analysis: _, runs, model, ...keys } = readKeys(request);
  const { note: ownNote, examples = [] } = help[name] ?? {};
  const commands = examples.map((line) => `temper analyze ${name} ${line}`);
  const options = Object.entries(keys).map(([key, schema]) => ({ key, option: createOption(key, schema) }));
  const sub = command
    .command(name)
    .description(summary)
    .showHelpAfterError(`Run \`temper analyze ${name} --help\` for its options.`)
    .argument(runs ? "<runs...>" : "<model>", (runs ?? model)?.description);
  for (const { option } of options) sub.addOption(option);
  sub
    .addOption(jsonOption("print the data as JSON"))
    .addOption(quietOption())
    .addHelpText("after", `${ownNote ? `\n${ownNote}\n` : ""}${formatHelpExamples(...commands)}`);
  sub.action(async (subject: string | string[], values: Record<string, unknown>) => {
    const given = options.map(({ key, option }) => [key, values[option.attributeName()]] as const);
    await run(io, { keeps, unit, quiet: values.quiet === true, json: values.json === true }, {
      analysis: name,
      ...(runs ? { runs: subject } : { model: subject }),
      ...Object.fromEntries(given.filter(([, value]) => value !== undefined)),
    } as AnalysisRequest);
  });
}

interface RunOptions extends Pick<AnalysisDefinition, "keeps" | "unit"> {
  readonly quiet: boolean;
  readonly json: boolean;
}

async function run(io: Io, { keeps, unit, quiet, json }: RunOptions, request: AnalysisRequest): Promise<void> {
  const stop = new AbortController();
  const callbacks = createCallbacks(io, quiet, unit);
  // An analysis that keeps nothing ends at once, like any other program.
  const unlisten =
    keeps === undefined
      ? undefined
      : onStopSignals(() => (stop.signal.aborted ? process.exit(interruptedExitCode) : stop.abort()));
  try {
    const { name, summary, data, files } = await analyze(request, { ...callbacks, signal: stop.signal });
    callbacks.end();
    if (json) return await printJson(io, { analysis: name, summary, ...(data as object), files });
    await write(
      io.stdout,
      `${summary}\n${[files.svg, files.png, files.json].filter((path) => path !== null).join("  ")}\n`,
    );
  } catch (error) {
    callbacks.end();
    if (!(error instanceof Interrupted)) throw error;
    const again = formatCommandLine(["temper", ...process.argv.slice(2)]);
    io.stderr.write(`\n${error.message} ${keeps}\nResume with: ${again}\n`);
    throw new ExitCode(interruptedExitCode);
  } finally {
    unlisten?.();
    callbacks.end();
  }
}

/** One key of a request, as JSON Schema describes it. */
interface KeySchema {
  readonly type?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly string[];
  readonly items?: KeySchema;
}

/** The keys of a request. Keys that can be null are described by their other type. */
function readKeys(request: z.ZodType): Record<string, KeySchema> {
  const { properties = {} } = z.toJSONSchema(request, { io: "input" });
  return Object.fromEntries(
    Object.entries(properties as Record<string, KeySchema & { anyOf?: readonly KeySchema[] }>).map(
      ([key, { anyOf, ...schema }]) => [key, { ...anyOf?.[0], ...schema }],
    ),
  );
}

/**
 * The flag of a key. A list of words is a flag in the singular that can be repeated; numbers are
 * separated by commas.
 */
function createOption(key: string, { type, items, description = "", default: standard, ...schema }: KeySchema): Option {
  const isNumber = [type, items?.type].some((each) => each === "number" || each === "integer");
  const choices = items?.enum ?? schema.enum;
  const name = (items && !isNumber ? key.replace(/s$/, "") : key).replace(
    /[A-Z]/g,
    (letter) => `-${letter.toLowerCase()}`,
  );
  const value = isNumber ? (items ? "numbers" : "number") : items && choices ? "name..." : "value";
  // A description says what null means; other defaults are data.
  const text = description.replace(/; null: (.*)$/, " (default: $1)");
  const isShown = typeof standard !== "boolean" && standard !== null && standard !== undefined;
  const note = isShown ? ` (default: ${[standard].flat().join(", ")})` : "";
  const option = new Option(type === "boolean" ? `--${name}` : `--${name} <${value}>`, `${text}${note}`);
  if (choices) option.choices(choices);
  else if (isNumber) option.argParser((words) => (items ? words.split(",").map(parseNumber) : parseNumber(words)));
  else if (items) option.argParser((word, before: unknown) => appendValue(word, before as string[] | undefined));
  return option.makeOptionMandatory(standard === undefined);
}
