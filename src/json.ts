/** A syntax error with its position, which JSON.parse often does not report. */
export class JsonError extends Error {
  override name = "JsonError";
  constructor(
    readonly problem: string,
    readonly line: number,
    readonly column: number,
  ) {
    super(`${line}:${column}: ${problem}`);
  }
}

/** Deep enough for any real file. The limit keeps a malicious one from exhausting the stack. */
export const maxJsonDepth = 256;

/** Whether a value has more levels than `maxJsonDepth`. It does not use the stack. */
export function isNestedTooDeeply(value: unknown): boolean {
  let level = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxJsonDepth) return true;
    const next: unknown[] = [];
    for (const parent of level)
      if (typeof parent === "object" && parent !== null)
        for (const child of Object.values(parent)) if (typeof child === "object" && child !== null) next.push(child);
    level = next;
  }
  return false;
}

const escapes: Readonly<Record<string, string>> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};
const numberPattern = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const wordPattern = /true|false|null/y;
const literals = new Map<string, unknown>([
  ["true", true],
  ["false", false],
  ["null", null],
]);

/**
 * Parses strict JSON. Throws a JsonError with the position of the error. Duplicate keys are errors
 * too.
 */
export function parseJson(text: string): unknown {
  let at = 0;

  function fail(problem: string, offset = at): never {
    let line = 1;
    let lineStart = 0;
    for (let next = text.indexOf("\n"); next !== -1 && next < offset; next = text.indexOf("\n", lineStart)) {
      line++;
      lineStart = next + 1;
    }
    throw new JsonError(problem, line, offset - lineStart + 1);
  }

  function describePosition(): string {
    if (at >= text.length) return "the end of the text";
    return JSON.stringify(String.fromCodePoint(text.codePointAt(at)!));
  }

  function skipSpace(): void {
    for (; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
    }
  }

  function match(pattern: RegExp): string | null {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0] ?? null;
    if (found !== null) at += found.length;
    return found;
  }

  function parseString(): string {
    const start = at++;
    let value = "";
    let chunk = at;
    for (; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (code === 0x22) {
        value += text.slice(chunk, at++);
        return value;
      }
      if (code < 0x20) fail(`a control character (${code}) must be escaped inside a string`);
      if (code !== 0x5c) continue;
      value += text.slice(chunk, at++);
      value += parseEscape();
      chunk = at + 1;
    }
    return fail("unterminated string", start);
  }

  /** Leaves `at` at the last character of the escape sequence. */
  function parseEscape(): string {
    const letter = text[at] ?? "";
    const simple = Object.hasOwn(escapes, letter) ? escapes[letter] : undefined;
    if (simple !== undefined) return simple;
    const digits = text.slice(at + 1, at + 5);
    if (letter !== "u" || !/^[0-9a-fA-F]{4}$/.test(digits)) fail("invalid escape sequence in a string", at - 1);
    at += 4;
    return String.fromCharCode(Number.parseInt(digits, 16));
  }

  /** Parses comma-separated items up to the closing character. */
  function parseList(close: string, item: () => void): void {
    at++;
    skipSpace();
    if (text[at] === close) {
      at++;
      return;
    }
    for (;;) {
      item();
      skipSpace();
      const next = text[at];
      if (next !== "," && next !== close) fail(`expected "," or "${close}", found ${describePosition()}`);
      at++;
      if (next === close) return;
      skipSpace();
    }
  }

  function parseObject(depth: number): Record<string, unknown> {
    const object: Record<string, unknown> = {};
    parseList("}", () => {
      if (text[at] !== '"') fail(`expected a key in double quotes, found ${describePosition()}`);
      const start = at;
      const key = parseString();
      if (Object.hasOwn(object, key)) fail(`duplicate key ${JSON.stringify(key.slice(0, 200))}`, start);
      skipSpace();
      if (text[at] !== ":") fail(`expected ":", found ${describePosition()}`);
      at++;
      const value = parseValue(depth);
      // Assigning to __proto__ would change the prototype.
      if (key === "__proto__")
        Object.defineProperty(object, key, { value, enumerable: true, writable: true, configurable: true });
      else object[key] = value;
    });
    return object;
  }

  function parseValue(depth: number): unknown {
    skipSpace();
    if (depth > maxJsonDepth) fail(`nested more than ${maxJsonDepth} levels deep`);
    const first = text[at];
    if (first === '"') return parseString();
    if (first === "{") return parseObject(depth + 1);
    if (first === "[") {
      const array: unknown[] = [];
      parseList("]", () => array.push(parseValue(depth + 1)));
      return array;
    }
    const number = match(numberPattern);
    if (number !== null) return Number(number);
    const word = match(wordPattern);
    if (word !== null) return literals.get(word);
    return fail(`expected a value, found ${describePosition()}`);
  }

  const value = parseValue(0);
  skipSpace();
  if (at < text.length) fail(`expected the end of the text, found ${describePosition()}`);
  return value;
}
