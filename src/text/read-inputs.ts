import { createReadStream } from "node:fs";
import { z } from "zod";
import { UserError } from "../errors.js";
import { createFileError } from "../files.js";
import { validate } from "../validate.js";

/** A line of a text file and its number from 1. */
export interface TextLine {
  readonly line: number;
  readonly text: string;
}

const NEWLINE = 0x0a;

/**
 * Reads a UTF-8 file line by line without holding it in memory; "-" is the standard input. A byte order mark and carriage returns
 * at line ends are dropped. Bytes that are not UTF-8 are an error that names the line.
 */
export async function* readLines(path: string, input?: AsyncIterable<Uint8Array>): AsyncGenerator<TextLine> {
  const name = path === "-" ? "standard input" : path;
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let rest: Uint8Array[] = [];
  let line = 0;
  const decode = (bytes: Uint8Array): TextLine => {
    line++;
    let text: string;
    try {
      text = decoder.decode(bytes);
    } catch (error) {
      throw new UserError(`${name}:${line}: this line is not valid UTF-8; save the text as UTF-8`, { cause: error });
    }
    if (line === 1 && text.startsWith("\ufeff")) text = text.slice(1);
    return { line, text: text.endsWith("\r") ? text.slice(0, -1) : text };
  };
  try {
    for await (const chunk of input ?? openStream(path)) {
      let start = 0;
      for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
        rest.push(chunk.subarray(start, end));
        yield decode(rest.length === 1 ? rest[0]! : Buffer.concat(rest));
        rest = [];
        start = end + 1;
      }
      if (start < chunk.length) rest.push(chunk.subarray(start));
    }
  } catch (error) {
    throw createFileError(error, name, "read");
  }
  if (rest.length > 0) yield decode(Buffer.concat(rest));
}

function openStream(path: string): AsyncIterable<Uint8Array> {
  return path === "-" ? process.stdin : createReadStream(path, { highWaterMark: 1 << 18 });
}

/** One input: a text or a pair, and the line it came from. */
export interface TextInput {
  readonly line: number;
  readonly texts: readonly string[];
}

const inputSchema = z.union(
  [z.looseObject({ text: z.string() }), z.looseObject({ texts: z.array(z.string()).min(1).max(2) })],
  {
    error: 'expected {"text": "…"} or {"texts": ["…", "…"]}',
  },
);

/**
 * Reads inputs from a file or "-": JSON lines ({"text": …} or {"texts": [a, b]}) where the name ends in .jsonl or the first line is
 * such an object, else a text a line. Blank lines are skipped; a file without any input is an error.
 */
export async function* readInputs(path: string, input?: AsyncIterable<Uint8Array>): AsyncGenerator<TextInput> {
  const name = path === "-" ? "standard input" : path;
  let json: boolean | undefined = path.endsWith(".jsonl") || undefined;
  let found = false;
  for await (const { line, text } of readLines(path, input)) {
    if (text.trim() === "") continue;
    found = true;
    json ??= inputSchema.safeParse(tryParseJson(text)).success;
    if (!json) {
      yield { line, texts: [text] };
      continue;
    }
    const value = tryParseJson(text);
    if (value === undefined) {
      throw new UserError(
        `${name}:${line}: not valid JSON; expected {"text": "…"} or {"texts": ["…", "…"]} on every line`,
      );
    }
    const object = validate(inputSchema, value, `${name}:${line}`);
    yield { line, texts: "texts" in object ? (object.texts as string[]) : [object.text as string] };
  }
  if (!found)
    throw new UserError(`${name}: there is no text in it; expected a text a line, or JSON lines such as {"text": "…"}`);
}

function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
