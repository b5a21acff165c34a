import { InvalidArgumentError, Option } from "@commander-js/extra-typings";
import { parseSplit } from "../tasks/task.js";

/** Reads an option's whole number, within bounds. */
export function createIntegerParser(min: number, max?: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= (max ?? Number.MAX_SAFE_INTEGER)) return value;
    throw new InvalidArgumentError(`Expected a whole number from ${min}${max === undefined ? "" : ` to ${max}`}.`);
  };
}

/** Reads an option's number. */
export function parseNumber(text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && Number.isFinite(value)) return value;
  throw new InvalidArgumentError("Expected a number.");
}

/** Gathers an option that may be given several times. */
export function appendValue(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

/** Where to compute; `chooseDevice` decides where it is left out. */
export const deviceOption = () => new Option("--device <name>", "cpu, cuda or cuda:N (default: a GPU if there is one)");

export const threadsOption = () =>
  new Option("--threads <count>", "threads of the CPU (default: a thread a core)").argParser(
    createIntegerParser(1, 1024),
  );

/** No pair of texts fits into fewer tokens with anything of both. */
export const minSequenceLength = 8;

export const maxLengthOption = () =>
  new Option("--max-length <tokens>", "cut texts to this many tokens (default: the model's)").argParser(
    createIntegerParser(minSequenceLength),
  );

export const batchSizeOption = (defaultValue: number) =>
  new Option("--batch-size <count>", "texts in one forward pass")
    .argParser(createIntegerParser(1, 65_536))
    .default(defaultValue);

export const tokenizationOption = (defaultValue = "as the model was trained, else subword") =>
  new Option("--tokenization <name>", `how text is read (default: ${defaultValue})`).choices([
    "subword",
    "word",
  ] as const);

export const precisionOption = () =>
  new Option("--precision <name>", "bf16, tf32 or fp32 (default: bf16 on a GPU, fp32 on a CPU)").choices([
    "bf16",
    "tf32",
    "fp32",
  ] as const);

// Which data: the same words for every verb that reads a task.
export const taskOption = () =>
  new Option("--task <name>", "a task such as sst2, imdb, spam or hf:OWNER/NAME; none for a table of your own");
export const dataOption = () =>
  new Option("--data <path>", "folder or file of the data; a table is .csv, .tsv, .jsonl or .parquet");
export const textColumnOption = () =>
  new Option("--text-column <column>", "the column of the text; twice for a pair").argParser(appendValue);
export const labelColumnOption = () => new Option("--label-column <column>", "the column of the label");
export const skipBadRowsOption = () =>
  new Option("--skip-bad-rows", "leave out rows that cannot be used instead of stopping");
export const splitOption = () =>
  new Option("--split <name>", "dataset split: train, validation or test (default: test)").argParser(parseSplit);
export const maxSamplesOption = <Flag extends string>(flag: Flag, what: string) =>
  new Option(`${flag} <count>`, what).argParser(createIntegerParser(1));
export const seedOption = (what: string) => new Option("--seed <number>", what).argParser(createIntegerParser(0));

export const quietOption = () => new Option("--quiet", "no progress and no notes");
export const jsonOption = (what: string) => new Option("--json", what);

/** Examples at the end of a verb's help. */
export function formatHelpExamples(...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}\n`;
}
