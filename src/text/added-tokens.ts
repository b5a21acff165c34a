import { characterFlags, SPACE } from "./unicode.js";

/** A token that is found in text before anything else is done to it, as tokenizer.json describes it. */
export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** Only between non-word characters. */
  readonly single_word: boolean;
  /** Takes the white space on its left (right) with it. */
  readonly lstrip: boolean;
  readonly rstrip: boolean;
  /** Looked for in normalised text, itself normalised. */
  readonly normalized: boolean;
}

/** Called for every stretch of plain text and every added token, from left to right. */
export interface SegmentVisitor {
  text(segment: string): void;
  token(id: number): void;
}

const wordClass = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\u200c\\u200d";
const wordBefore = new RegExp(`[${wordClass}]$`, "u");
const wordAfter = new RegExp(`^[${wordClass}]`, "u");
const isSpace = (text: string, index: number): boolean => (characterFlags[text.charCodeAt(index)]! & SPACE) !== 0;

/** Cuts text at one set of added tokens: the leftmost, and of those the longest. */
function createSplitter(
  tokens: readonly AddedToken[],
  getContent: (token: AddedToken) => string,
): (text: string, visitor: SegmentVisitor) => void {
  const byContent = new Map(
    tokens.map((token) => [getContent(token), token] as const).filter(([content]) => content !== ""),
  );
  if (byContent.size === 0) return (text, visitor) => visitor.text(text);
  const longestFirst = [...byContent.keys()].sort((a, b) => b.length - a.length);
  const pattern = new RegExp(
    longestFirst.map((content) => content.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")).join("|"),
    "gu",
  );
  return (text, visitor) => {
    let done = 0;
    for (const match of text.matchAll(pattern)) {
      const token = byContent.get(match[0])!;
      let start = match.index;
      let end = start + match[0].length;
      if (
        token.single_word &&
        (wordBefore.test(text.slice(Math.max(0, start - 2), start)) || wordAfter.test(text.slice(end, end + 2)))
      )
        continue;
      if (token.lstrip) while (start > done && isSpace(text, start - 1)) start--;
      if (token.rstrip) while (end < text.length && isSpace(text, end)) end++;
      if (start > done) visitor.text(text.slice(done, start));
      visitor.token(token.id);
      done = end;
    }
    if (done < text.length) visitor.text(text.slice(done));
  };
}

/** Cuts text at the added tokens; the plain stretches between them come normalised. */
export function createAddedTokenSplitter(
  tokens: readonly AddedToken[],
  normalize: (text: string) => string,
): (text: string, visitor: SegmentVisitor) => void {
  const splitRaw = createSplitter(
    tokens.filter((token) => !token.normalized),
    (token) => token.content,
  );
  const splitNormalized = createSplitter(
    tokens.filter((token) => token.normalized),
    (token) => normalize(token.content),
  );
  return (text, visitor) =>
    splitRaw(text, {
      token: (id) => visitor.token(id),
      text: (segment) => splitNormalized(normalize(segment), visitor),
    });
}
