import { Writable } from "node:stream";
import { expect } from "vitest";
import { run } from "../../src/cli/main.js";

/** A stream that remembers what was written to it. */
export function memoryStream(terminal?: {
  columns: number;
}): Writable & { text: string; isTTY: boolean; columns: number } {
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: string | Buffer, _encoding, done) {
      made.text += chunk.toString();
      done();
    },
  });
  const made = Object.assign(stream, { text: "", isTTY: terminal !== undefined, columns: terminal?.columns ?? 80 });
  return made;
}

/** Runs a command line in this process. */
export async function invoke(
  argv: readonly string[],
  stdin: string | Uint8Array = "",
): Promise<{ code: number; stdout: string; stderr: string }> {
  const [stdout, stderr] = [memoryStream(), memoryStream()];
  const input = (async function* () {
    yield Buffer.from(stdin);
  })();
  // What a test compares must not depend on how busy the host is.
  const code = await run(argv, { stdin: input, stdout, stderr, silence: Number.POSITIVE_INFINITY });
  return { code, stdout: stdout.text, stderr: stderr.text };
}

/** The message of a command line that must fail: exit code 2, nothing on stdout, no stack trace. */
export async function getError(argv: readonly string[], stdin: string | Uint8Array = "a film"): Promise<string> {
  const { code, stdout, stderr } = await invoke(argv, stdin);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  // An estimate says before what it does.
  expect(stderr).toMatch(/^temper: /m);
  expect(stderr).not.toMatch(/\n\s+at /);
  return stderr;
}
