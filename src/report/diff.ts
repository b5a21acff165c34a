import type { AttackResult } from "../attacks/result.js";
import { splitChangedText, splitOriginalText } from "../evaluation/changed-text.js";
import type { TextPiece } from "../text/text-pieces.js";
import { type Html, html } from "./html.js";

const contextWords = 12;

/** The words of the original text that any of the attacks replaced. */
export function listReplaced(results: readonly AttackResult[]): ReadonlySet<number> {
  const edits = results.flatMap((result) => result.edits);
  // An inserted word was nothing before.
  return new Set(edits.filter(({ from }) => from !== "").map(({ position }) => position));
}

/** Renders both versions of a text so that nothing tells which one is the original. */
export function renderBlindTexts(result: AttackResult): { readonly original: Html; readonly attacked: Html } {
  const { fields, changed } = splitChangedText(result);
  const show = ({ text }: TextPiece): Html => html`${text}`;
  return {
    original: renderParagraphs(splitOriginalText(result), listReplaced([result]), show),
    attacked: renderParagraphs(fields, changed, show),
  };
}

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
  return html`${fields.map((pieces) => html`<div class="text">${markPieces(pieces, changed, mark)}</div>`)}`;
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
 * Folds a part without changes. At the ends of a text, only the side next to a change is
 * context.
 */
function shortenText(text: string, { isFirst, isLast }: { isFirst: boolean; isLast: boolean }): Html {
  const words = text.match(/(?:^\s*)?\S+\s*/g) ?? [];
  if (words.length <= 3 * contextWords) return html`${text}`;
  // Of a text without any change, the beginning is shown.
  const before = isFirst && !isLast ? 0 : isFirst ? 2 * contextWords : contextWords;
  const after = isLast ? 0 : contextWords;
  const end = words.length - after;
  const [start, omitted, rest] = [words.slice(0, before), words.slice(before, end), words.slice(end)];
  const summary = html`<summary>[… ${omitted.length} words …]</summary>`;
  const folded = html`<details class="omitted">${summary}${omitted.join("")}</details>`;
  return html`${start.join("")}${folded} ${rest.join("")}`;
}
