import type { AttackResult } from "../attacks/result.js";
import { createTextTemplate, type TextPiece } from "../text/text-template.js";
import { type Html, html } from "./html.js";

/** Words kept on each side of a long stretch in which nothing changed. */
const contextWords = 12;

/** The original text, with the words marked that became others. */
export function renderOriginalText(result: AttackResult, changed: ReadonlySet<number>): Html {
  return renderParagraphs(splitIntoPieces(result, result.words), changed, ({ text }) => html`<del>${text}</del>`);
}

/** The text after the attack: every new word is marked, and says to those who listen what it stands for. */
export function renderChangedText(result: AttackResult): Html {
  const changed = new Set(result.edits.map(({ position }) => position));
  return renderParagraphs(splitIntoPieces(result, result.final), changed, ({ text, word }) => {
    const from = result.words[word!];
    return html`<ins title="${from} → ${text}">${text}<span class="heard"> (was ${from})</span></ins>`;
  });
}

function splitIntoPieces({ texts, words, fieldSizes }: AttackResult, shown: readonly string[]): TextPiece[][] {
  const fields = fieldSizes.flatMap((size, field) => new Array<number>(size).fill(field));
  return createTextTemplate(texts, words, fields).pieces(shown);
}

function renderParagraphs(
  fields: readonly TextPiece[][],
  changed: ReadonlySet<number>,
  mark: (piece: TextPiece) => Html,
): Html {
  return html`${fields.map((pieces) => html`<p class="text">${markPieces(pieces, changed, mark)}</p>`)}`;
}

/** Unchanged pieces are put together first, so that a long stretch can be cut in its middle. */
function markPieces(
  pieces: readonly TextPiece[],
  changed: ReadonlySet<number>,
  mark: (piece: TextPiece) => Html,
): Html[] {
  const made: Html[] = [];
  let plain = "";
  const flush = (last: boolean): void => {
    if (plain !== "") made.push(shortenText(plain, { isFirst: made.length === 0, isLast: last }));
    plain = "";
  };
  for (const piece of pieces) {
    if (piece.word === null || !changed.has(piece.word)) plain += piece.text;
    else {
      flush(false);
      made.push(mark(piece));
    }
  }
  flush(true);
  return made;
}

/** A stretch without changes; at the ends of a text, only the side next to a change is context. */
function shortenText(text: string, { isFirst, isLast }: { isFirst: boolean; isLast: boolean }): Html {
  const words = text.match(/\s*\S+\s*/g) ?? [];
  if (words.length <= 3 * contextWords) return html`${text}`;
  // A text without any change is shown by its beginning, as one reads it.
  const before = isFirst && !isLast ? 0 : isFirst ? 2 * contextWords : contextWords;
  const after = isLast ? 0 : contextWords;
  const left = words.length - before - after;
  const [start, end] = [words.slice(0, before).join(""), words.slice(words.length - after).join("")];
  return html`${start}<span class="left-out" title="${left} words left out">[… ${left} words …]</span> ${after > 0 ? end : ""}`;
}
