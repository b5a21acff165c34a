import type { AttackResult } from "../attacks/result.js";
import { splitChangedText, splitOriginalText } from "../evaluation/changed-text.js";
import type { TextPiece } from "../text/text-pieces.js";
import { type Html, html } from "./html.js";

/** Words that are shown next to a change. */
const contextWords = 12;

/** Renders the original text and marks the words that were replaced. */
export function renderOriginalText(result: AttackResult, changed: ReadonlySet<number>): Html {
  return renderParagraphs(splitOriginalText(result), changed, ({ text }) => html`<del>${text}</del>`);
}

/**
 * Renders the text after the attack and marks every substitute, with its original for screen
 * readers.
 */
export function renderChangedText(result: AttackResult): Html {
  const { fields, changed, getOriginal } = splitChangedText(result);
  return renderParagraphs(fields, changed, ({ text, word }) => {
    const from = getOriginal(word!);
    if (from === undefined) return html`<ins title="inserted">${text}<span class="sr-only"> (inserted)</span></ins>`;
    return html`<ins title="${from} → ${text}">${text}<span class="sr-only"> (was ${from})</span></ins>`;
  });
}

function renderParagraphs(
  fields: readonly TextPiece[][],
  changed: ReadonlySet<number>,
  mark: (piece: TextPiece) => Html,
): Html {
  return html`${fields.map((pieces) => html`<p class="text">${markPieces(pieces, changed, mark)}</p>`)}`;
}

/** Joins unchanged pieces, so that a long part without changes can be shortened in its middle. */
function markPieces(
  pieces: readonly TextPiece[],
  changed: ReadonlySet<number>,
  mark: (piece: TextPiece) => Html,
): Html[] {
  const parts: Html[] = [];
  let plain = "";
  const flush = (last: boolean): void => {
    if (plain !== "") parts.push(shortenText(plain, { isFirst: parts.length === 0, isLast: last }));
    plain = "";
  };
  for (const piece of pieces) {
    if (piece.word === null || !changed.has(piece.word)) plain += piece.text;
    else {
      flush(false);
      parts.push(mark(piece));
    }
  }
  flush(true);
  return parts;
}

/**
 * Shortens a part without changes. At the ends of a text, only the side next to a change is
 * context.
 */
function shortenText(text: string, { isFirst, isLast }: { isFirst: boolean; isLast: boolean }): Html {
  const words = text.match(/(?:^\s*)?\S+\s*/g) ?? [];
  if (words.length <= 3 * contextWords) return html`${text}`;
  // Of a text without any change, the beginning is shown.
  const before = isFirst && !isLast ? 0 : isFirst ? 2 * contextWords : contextWords;
  const after = isLast ? 0 : contextWords;
  const omitted = words.length - before - after;
  const [start, end] = [words.slice(0, before).join(""), words.slice(words.length - after).join("")];
  const mark = html`<span class="omitted" title="${omitted} words omitted">[… ${omitted} words …]</span>`;
  return html`${start}${mark} ${after > 0 ? end : ""}`;
}
