import picocolors from "picocolors";

/** A stream of text for people or programs. */
export type OutputStream = NodeJS.WritableStream & { readonly isTTY?: boolean; readonly columns?: number };

/** The streams of a command: those of the process, or those of a test. */
export interface Io {
  readonly stdin: AsyncIterable<Uint8Array>;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
}

/** Writes, and waits if the reader is slow, so that output never piles up in memory. */
export async function write(out: OutputStream, text: string): Promise<void> {
  if (out.write(text)) return;
  await new Promise<void>((resolve) => out.once("drain", resolve));
}

/** Colors for a stream; none if it is not a terminal or NO_COLOR is set. */
export function getColors(out: OutputStream): ReturnType<typeof picocolors.createColors> {
  const { NO_COLOR, TERM } = process.env;
  return picocolors.createColors(out.isTTY === true && !NO_COLOR && TERM !== "dumb");
}
