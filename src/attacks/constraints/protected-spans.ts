import type { EditedText } from "../edited-text.js";
import type { Constraint } from "../protocol.js";

/** Parts of any text that should stay as they are. */
const patterns = {
  code: /```[\s\S]*?```|`[^`\n]+`|(?:(?<![\p{L}\p{N}\w.$-])|(?<=(?!\w)[\p{L}\p{N}][_.$-]))[\w.$-]+\([^()\n]*\)|(?<!\S)(?:\.{0,2}\/)?[\w.-]+(?:\/[\w.-]+)+/gu,
  url: /\b(?:https?|ftp):\/\/\S+|\bwww\.\S+/giu,
  email: /(?<![\p{L}\p{N}._%+-])[\p{L}\p{N}._%+-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+/gu,
  number: /(?<![\p{L}])[$€£]?\d[\d.,:/%-]*/gu,
  quote: /"[^"\n]{1,200}"|“[^”\n]{1,200}”|«[^»\n]{1,200}»/gu,
  // A capital letter in the middle of a sentence begins a name.
  name: /(?=\p{Lu})(?<=[\p{Ll}\p{N},;:)]\s+)\p{Lu}[\p{L}'-]+(?:\s+\p{Lu}[\p{L}'-]+)*/gu,
} as const;

export type ProtectedKind = keyof typeof patterns;
export const protectedKinds = Object.keys(patterns) as ProtectedKind[];

/** Words inside protected parts of the original text do not change. */
export function protectSpans(kinds: readonly ProtectedKind[], custom: readonly RegExp[] = []): Constraint {
  const all = [...kinds.map((kind) => patterns[kind]), ...custom];
  const known = new WeakMap<EditedText, ReadonlySet<number>>();
  const find = (original: EditedText): ReadonlySet<number> => {
    const found = known.get(original) ?? findProtectedWords(original, all);
    known.set(original, found);
    return found;
  };
  return {
    name: `protected: ${[...kinds, ...custom.map(String)].join(", ")}`,
    isOpen: (text, position) => !find(text.original).has(text.getOrigin(position)),
  };
}

function findProtectedWords(original: EditedText, expressions: readonly RegExp[]): Set<number> {
  // The number of protected characters before each position.
  const counts = original.texts.map((text) => {
    const count = new Uint32Array(text.length + 1);
    for (const expression of expressions)
      for (const { index, 0: match } of text.matchAll(expression)) count.fill(1, index + 1, index + match.length + 1);
    for (let i = 1; i < count.length; i++) count[i]! += count[i - 1]!;
    return count;
  });
  return new Set(
    original.slots
      .filter(({ field, start, end }) => counts[field]![end]! > counts[field]![start]!)
      .map(({ origin }) => origin),
  );
}
