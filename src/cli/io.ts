import picocolors from "picocolors";

export type OutputStream = NodeJS.WritableStream & { readonly isTTY?: boolean; readonly columns?: number };

/** The streams of a command: those of the process, or those of a test. */
export interface Io {
  readonly stdin: AsyncIterable<Uint8Array>;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  /** Milliseconds that a command may work before its first line in a log. */
  readonly silence?: number;
}

// Colors of the terminal, or a control character other than tab, line feed and carriage return.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const controls = /(\x1b\[[\d;]*m)|[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;

/**
 * Replaces control characters, so that a label or a text cannot control the terminal. Colors stay.
 */
export function removeControls(text: string): string {
  return text.replace(controls, (_, color: string | undefined) => color ?? "\ufffd");
}

/** Replaces all control characters, colors included: data has no colors of its own. */
export function removeEscapes(text: string): string {
  return removeControls(text.replaceAll("\x1b", "\ufffd"));
}

/** Writes, and waits if the reader is slow, so that output never piles up in memory. */
export async function write(out: OutputStream, text: string): Promise<void> {
  if (out.write(removeControls(text))) return;
  await new Promise<void>((resolve) => out.once("drain", resolve));
}

/** Colors for a stream; none if it is not a terminal or NO_COLOR is set. */
export function getColors(out: OutputStream): ReturnType<typeof picocolors.createColors> {
  const { NO_COLOR, TERM } = process.env;
  return picocolors.createColors(out.isTTY === true && !NO_COLOR && TERM !== "dumb");
}
