import { z } from "zod";
import { characterFlags, SPACE } from "./unicode.js";

const flag = z.boolean().default(false);

/** The fields of an added token in tokenizer.json and tokenizer_config.json. */
export const addedTokenFields = {
  content: z.string(),
  /** Match only between non-word characters. */
  single_word: flag,
  /** Also consume the white space on the left (right). */
  lstrip: flag,
  rstrip: flag,
  /** Search the normalized content in the normalized text. */
  normalized: flag,
};

const addedTokenSchema = z.object(addedTokenFields);

/** A token that is searched in a text before it is split into words. */
export type AddedToken = Readonly<z.output<typeof addedTokenSchema>> & { readonly id: number };

/** Called for every segment of plain text and every added token, from left to right. */
interface SegmentVisitor {
  text(segment: string): void;
  token(id: number): void;
}

const wordClass = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\u200c\\u200d";
const wordBefore = new RegExp(`[${wordClass}]$`, "u");
const wordAfter = new RegExp(`^[${wordClass}]`, "u");
const isSpace = (text: string, index: number): boolean => (characterFlags[text.charCodeAt(index)]! & SPACE) !== 0;

/** Splits text at a set of added tokens: the leftmost match, and of several the longest. */
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
    let consumed = 0;
    for (const match of text.matchAll(pattern)) {
      const token = byContent.get(match[0])!;
      let start = match.index;
      let end = start + match[0].length;
      const isInsideWord =
        wordBefore.test(text.slice(Math.max(0, start - 2), start)) || wordAfter.test(text.slice(end, end + 2));
      if (token.single_word && isInsideWord) continue;
      if (token.lstrip) while (start > consumed && isSpace(text, start - 1)) start--;
      if (token.rstrip) while (end < text.length && isSpace(text, end)) end++;
      if (start > consumed) visitor.text(text.slice(consumed, start));
      visitor.token(token.id);
      consumed = end;
    }
    if (consumed < text.length) visitor.text(text.slice(consumed));
  };
}

/** Splits text at the added tokens. The segments between them are normalized. */
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
