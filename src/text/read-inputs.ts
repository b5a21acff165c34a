import { createReadStream } from "node:fs";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { createFileError } from "../base/files.js";
import { validate } from "../base/validate.js";

/** A line of a text file and its number, from 1. */
interface InputLine {
  readonly line: number;
  readonly text: string;
  /** Bytes of the file up to the end of this line. */
  readonly bytes: number;
}

const NEWLINE = 0x0a;
/** A longer line is not a text. It would fill the memory, as a device such as /dev/zero does. */
const maxLineBytes = 16 << 20;

/**
 * Reads a UTF-8 file line by line, without loading all of it; "-" is the standard input. Removes
 * the byte-order mark and carriage returns at line ends. Invalid UTF-8 is an error that names the
 * line.
 */
export async function* readLines(path: string, input?: AsyncIterable<Uint8Array>): AsyncGenerator<InputLine> {
  const name = path === "-" ? "standard input" : path;
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let pending: Uint8Array[] = [];
  let pendingBytes = 0;
  let [line, consumed] = [0, 0];
  const decode = (bytes: Uint8Array): InputLine => {
    line++;
    consumed += bytes.length + 1;
    let text: string;
    try {
      text = decoder.decode(bytes);
    } catch (error) {
      throw new UserError(`${name}:${line}: the line is not valid UTF-8. Save the text as UTF-8.`, { cause: error });
    }
    if (line === 1 && text.startsWith("\ufeff")) text = text.slice(1);
    return { line, text: text.endsWith("\r") ? text.slice(0, -1) : text, bytes: consumed };
  };
  const stream: AsyncIterable<Uint8Array> =
    input ?? (path === "-" ? process.stdin : createReadStream(path, { highWaterMark: 1 << 18 }));
  try {
    for await (const chunk of stream) {
      let start = 0;
      for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
        pending.push(chunk.subarray(start, end));
        yield decode(pending.length === 1 ? pending[0]! : Buffer.concat(pending));
        pending = [];
        pendingBytes = 0;
        start = end + 1;
      }
      if (start < chunk.length) pending.push(chunk.subarray(start));
      pendingBytes += chunk.length - start;
      if (pendingBytes > maxLineBytes)
        throw new UserError(`${name}:${line + 1}: expected lines of at most ${maxLineBytes} bytes. Split the text.`);
    }
  } catch (error) {
    throw createFileError(error, name, "read");
  }
  if (pending.length > 0) yield decode(Buffer.concat(pending));
}

/** A text or a pair of texts, and its line number. */
export interface TextInput {
  readonly line: number;
  readonly texts: readonly string[];
  /** All columns of a table's row, or all keys of a JSON line. */
  readonly row?: Readonly<Record<string, unknown>>;
}

const expectedJson = 'expected {"text": "…"} or {"texts": ["…", "…"]}';

const inputSchema = z.union(
  [z.looseObject({ text: z.string() }), z.looseObject({ texts: z.array(z.string()).min(1).max(2) })],
  { error: expectedJson },
);

/**
 * Reads inputs from a file or "-" (standard input). If the name ends in .jsonl or the first line is
 * such an object, the input is JSON lines ({"text": …} or {"texts": [a, b]}), else one text per
 * line. Every line is an input, blank ones too, so that line n of an output belongs to line n here.
 */
export async function* readInputs(path: string, input?: AsyncIterable<Uint8Array>): AsyncGenerator<TextInput> {
  const name = path === "-" ? "standard input" : path;
  let json: boolean | undefined = path.endsWith(".jsonl") || undefined;
  let found = false;
  // Only the end of JSON lines may be blank.
  let blankLine: number | undefined;
  /** Blank lines before the first text: without one, they are no input. */
  const leading: TextInput[] = [];
  for await (const { line, text } of readLines(path, input)) {
    const isBlank = text.trim() === "";
    found ||= !isBlank;
    if (!isBlank) json ??= inputSchema.safeParse(tryParseJson(text)).success;
    if (json && isBlank) {
      blankLine ??= line;
      continue;
    }
    if (!found) {
      leading.push({ line, texts: [text] });
      continue;
    }
    if (!json) {
      yield* leading.splice(0);
      yield { line, texts: [text] };
      continue;
    }
    blankLine ??= leading[0]?.line;
    if (blankLine !== undefined)
      throw new UserError(`${name}:${blankLine}: the line is blank; ${expectedJson} on every line.`);
    const value = tryParseJson(text);
    if (value === undefined) throw new UserError(`${name}:${line}: invalid JSON; ${expectedJson} on every line.`);
    const object = validate(inputSchema, value, `${name}:${line}`);
    yield { line, texts: "texts" in object ? (object.texts as string[]) : [object.text as string], row: object };
  }
  if (!found)
    throw new UserError(`${name}: no text found. Expected one text per line, or JSON lines such as {"text": "…"}.`);
}

function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
