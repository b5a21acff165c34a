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

const tooDeep = `nested more than ${maxJsonDepth} levels deep`;

/** Returns true if a value has more levels than `maxJsonDepth`. It does not use the stack. */
function isNestedTooDeeply(value: unknown): boolean {
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

/** Parses JSON. Throws a JsonError with the position of the first mistake. */
export function parseJson(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    findMistake(text);
    throw error;
  }
  if (isNestedTooDeeply(value)) throw new JsonError(tooDeep, 1, 1);
  return value;
}

/**
 * Throws at the first mistake: a syntax error, or too many levels, which would exhaust the stack.
 */
function findMistake(text: string): void {
  let depth = 0;
  const enter = (_offset: number, _length: number, line: number, column: number): void => {
    if (++depth > maxJsonDepth) throw new JsonError(tooDeep, line + 1, column + 1);
  };
  const leave = (): void => void depth--;
  visit(
    text,
    {
      onObjectBegin: enter,
      onObjectEnd: leave,
      onArrayBegin: enter,
      onArrayEnd: leave,
      onError(code: ParseErrorCode, offset, length, line, column) {
        const problem = problems[printParseErrorCode(code)] ?? "syntax error";
        const found =
          length === 0 ? "the end of the text" : JSON.stringify(text.slice(offset, offset + Math.min(length, 40)));
        throw new JsonError(`${problem}, found ${found}`, line + 1, column + 1);
      },
    },
    { disallowComments: true, allowTrailingComma: false },
  );
}
