import { formatCount } from "../base/format.js";
import type { TextPiece } from "../text/text-pieces.js";

/** Splits a text where a model stops reading it, after so many characters. */
export function splitRead(
  pieces: readonly TextPiece[],
  numRead: number,
): { readonly read: readonly TextPiece[]; readonly unread: readonly TextPiece[] } {
  let end = 0;
  const count = pieces.findIndex(({ text }) => {
    end += text.length;
    return end > numRead;
  });
  return count < 0 ? { read: pieces, unread: [] } : { read: pieces.slice(0, count), unread: pieces.slice(count) };
}

/** Words that are shown on both sides of a change, and at the start of a text. */
const numContextWords = 12;
/** Fewer hidden words than this take as much space as the sentence that hides them. */
const minFoldedWords = 8;

/** Renders the pieces of a text. Words that are far from every change are counted instead. */
export function foldText(
  pieces: readonly TextPiece[],
  isChanged: (piece: TextPiece) => boolean,
  render: (piece: TextPiece) => string,
): string[] {
  const words = pieces.filter(({ word }) => word !== null);
  const shown = new Set<number>();
  const show = (from: number, to: number): void => {
    for (let i = Math.max(0, from); i <= Math.min(words.length - 1, to); i++) shown.add(i);
  };
  show(0, numContextWords - 1);
  for (const [i, word] of words.entries()) if (isChanged(word)) show(i - numContextWords, i + numContextWords);
  const rendered: string[] = [];
  let hidden: TextPiece[] = [];
  const flush = (): void => {
    const count = hidden.filter(({ word }) => word !== null).length;
    if (count >= minFoldedWords) rendered.push(` … ${formatCount(count)} words …`);
    else rendered.push(...hidden.map(render));
    hidden = [];
  };
  let next = 0;
  for (const piece of pieces) {
    // The characters between two words go with the second one.
    const position = Math.min(next, words.length - 1);
    if (piece.word !== null) next++;
    if (words.length === 0 || shown.has(position)) {
      flush();
      rendered.push(render(piece));
    } else hidden.push(piece);
  }
  flush();
  return rendered;
}
