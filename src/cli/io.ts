import picocolors from "picocolors";

/** A stream of text for people or programs. */
export type OutputStream = NodeJS.WritableStream & { readonly isTTY?: boolean; readonly columns?: number };

/** What a verb reads and writes: the process's own streams, or a test's. */
export interface Io {
  readonly stdin: AsyncIterable<Uint8Array>;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
}

/** Writes and waits where the reader is slower than we are, so that output never piles up in memory. */
export async function write(out: OutputStream, text: string): Promise<void> {
  if (out.write(text)) return;
  await new Promise<void>((resolve) => out.once("drain", resolve));
}

/** Colours for a stream: none where it is no terminal or NO_COLOR is set. */
export function getColors(out: OutputStream): ReturnType<typeof picocolors.createColors> {
  const { NO_COLOR, TERM } = process.env;
  return picocolors.createColors(out.isTTY === true && !NO_COLOR && TERM !== "dumb");
}
