import { useState } from "preact/hooks";
import type { DiffPiece } from "../api.js";

/** Words that stay around a part that is not folded. */
const contextWords = 25;

interface FoldedTextProps {
  readonly pieces: readonly DiffPiece[];
  /** The index of a piece that is never folded, although it has no changed word. */
  readonly kept?: number;
}

/** A text with its changed words. Long parts without a change are folded until somebody opens them. */
export function FoldedText({ pieces, kept }: FoldedTextProps) {
  const [isOpen, setOpen] = useState(false);
  const parts = pieces.map((piece, i) =>
    isOpen || i === kept || piece.was !== undefined
      ? { ...piece, hidden: 0 }
      : foldText(piece.text, i > 0, i < pieces.length - 1),
  );
  const hidden = parts.reduce((sum, part) => sum + part.hidden, 0);
  return (
    <p class="text">
      {parts.map(({ text, was }, i) =>
        was === undefined ? (
          text
        ) : (
          <span key={i}>
            <del>{was}</del> <ins>{text}</ins>
          </span>
        ),
      )}
      {hidden > 0 && " "}
      {hidden > 0 && (
        <button type="button" class="quiet" onClick={() => setOpen(true)}>
          Show {hidden} more words
        </button>
      )}
    </p>
  );
}

/** Keeps the words next to other pieces. A text that is alone keeps its beginning. */
function foldText(text: string, hasBefore: boolean, hasAfter: boolean): DiffPiece & { readonly hidden: number } {
  const words = text.match(/\s*\S+\s*/g) ?? [];
  const head = hasBefore ? contextWords : hasAfter ? 0 : 2 * contextWords;
  const tail = hasAfter ? contextWords : 0;
  const hidden = words.length - head - tail;
  // A fold that hides less than its button shows is no help.
  if (hidden <= 5) return { text, hidden: 0 };
  return { text: [...words.slice(0, head), "… ", ...words.slice(words.length - tail)].join(""), hidden };
}

/** The text of each field after an attack. A replaced word is followed by its substitute. */
export function DiffText({ fields }: { fields: readonly (readonly DiffPiece[])[] }) {
  return (
    <div class="diff">
      {fields.map((pieces, i) => (
        <FoldedText key={i} pieces={pieces} />
      ))}
    </div>
  );
}
