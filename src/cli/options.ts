import { InvalidArgumentError, Option } from "@commander-js/extra-typings";

/** Reads an option's whole number, within bounds. */
export function wholeNumber(least: number, most?: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= least && value <= (most ?? Number.MAX_SAFE_INTEGER)) return value;
    throw new InvalidArgumentError(`Expected a whole number from ${least}${most === undefined ? "" : ` to ${most}`}.`);
  };
}

/** Where to compute; `chooseDevice` decides where it is left out. */
export const deviceOption = () => new Option("--device <name>", "cpu, cuda or cuda:N (default: a GPU if there is one)");

export const threadsOption = () =>
  new Option("--threads <count>", "threads of the CPU (default: a thread a core)").argParser(wholeNumber(1, 1024));

/** No pair of texts fits into fewer tokens with anything of both. */
export const leastLength = 8;

export const maxLengthOption = () =>
  new Option("--max-length <tokens>", "cut texts to this many tokens (default: the model's)").argParser(wholeNumber(leastLength));

export const batchSizeOption = (usual: number) =>
  new Option("--batch-size <count>", "texts in one forward pass").argParser(wholeNumber(1, 65_536)).default(usual);

export const encodingOption = () =>
  new Option("--encoding <name>", "how text is read (default: as the model was trained, else subword)").choices([
    "subword",
    "word",
  ] as const);

export const quietOption = () => new Option("--quiet", "no progress and no notes");
export const jsonOption = (what: string) => new Option("--json", what);

/** Examples at the end of a verb's help. */
export function examples(...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}\n`;
}
