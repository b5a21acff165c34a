import { type ParseErrorCode, printParseErrorCode, visit } from "jsonc-parser";

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

/** Returns true if a value has more levels than `maxJsonDepth`. It does not use the stack. */
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

const problems: Readonly<Record<string, string>> = {
  InvalidSymbol: "expected a value",
  InvalidNumberFormat: "invalid number",
  PropertyNameExpected: "expected a key in double quotes",
  ValueExpected: "expected a value",
  ColonExpected: 'expected ":"',
  CommaExpected: 'expected ","',
  CloseBraceExpected: 'expected "," or "}"',
  CloseBracketExpected: 'expected "," or "]"',
  EndOfFileExpected: "expected the end of the text",
  UnexpectedEndOfString: "unterminated string",
  UnexpectedEndOfNumber: "invalid number",
  InvalidUnicode: "invalid escape sequence in a string",
  InvalidEscapeCharacter: "invalid escape sequence in a string",
  InvalidCharacter: "a control character must be escaped inside a string",
};

/**
 * Parses strict JSON. Throws a JsonError with the position of the error. Duplicate keys are errors
 * too.
 */
export function parseJson(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    // JSON.parse keeps the last of several values with the same key.
    checkSyntax(text, true);
    return value;
  } catch (error) {
    if (error instanceof JsonError) throw error;
    checkSyntax(text, false);
    throw error;
  }
}

/** Throws at the first mistake: a syntax error, too many levels, or a key that occurs twice. */
function checkSyntax(text: string, isValid: boolean): void {
  const fail = (problem: string, line: number, column: number): never => {
    throw new JsonError(problem, line + 1, column + 1);
  };
  const keys: Set<string>[] = [];
  let depth = 0;
  const enter = (line: number, column: number): void => {
    if (++depth > maxJsonDepth) fail(`nested more than ${maxJsonDepth} levels deep`, line, column);
  };
  visit(
    text,
    {
      onObjectBegin(_offset, _length, line, column) {
        enter(line, column);
        keys.push(new Set());
      },
      onObjectEnd() {
        depth--;
        keys.pop();
      },
      onArrayBegin: (_offset, _length, line, column) => enter(line, column),
      onArrayEnd: () => void depth--,
      onObjectProperty(key, _offset, _length, line, column) {
        const seen = keys.at(-1)!;
        if (seen.has(key)) fail(`duplicate key ${JSON.stringify(key.slice(0, 200))}`, line, column);
        seen.add(key);
      },
      onError(code: ParseErrorCode, offset, length, line, column) {
        if (isValid) return;
        const problem = problems[printParseErrorCode(code)] ?? "syntax error";
        const found =
          length === 0 ? "the end of the text" : JSON.stringify(text.slice(offset, offset + Math.min(length, 40)));
        fail(`${problem}, found ${found}`, line, column);
      },
    },
    { disallowComments: true, allowTrailingComma: false },
  );
}
