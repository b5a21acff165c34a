import type { Encoding, Tokenizer } from "../text/encoding.js";
import type { EditedText } from "./edited-text.js";

/**
 * Returns a function that encodes a text with some of these substitutions, one token per word. Words
 * never extend across white space. So if no two of the words are in the same part between spaces,
 * and each substitution alone changes one token, then several change these tokens and nothing else.
 * Null if that does not hold.
 */
export function createWordComposer(
  { encodeWords }: Pick<Tokenizer, "encodeWords">,
  maxLength: number,
  original: EditedText,
  substitutions: readonly (readonly [position: number, word: string])[],
): ((chosen: readonly number[]) => Encoding) | null {
  const base = encodeWords(original.texts, maxLength);
  const partOf = new Map<string, number>();
  const [places, tokens] = [new Int32Array(substitutions.length), new Int32Array(substitutions.length)];
  for (const [i, [position, word]] of substitutions.entries()) {
    const { field, start } = original.slots[position]!;
    let partStart = start;
    while (/\S/.test(original.texts[field]!.charAt(partStart - 1))) partStart--;
    const part = `${field} ${partStart}`;
    if ((partOf.get(part) ?? position) !== position) return null;
    partOf.set(part, position);
    const { ids } = encodeWords(original.apply({ kind: "replace", position, word }).texts, maxLength);
    const place = base.positions[position];
    if (place === undefined || ids.length !== base.ids.length) return null;
    if (ids.some((id, at) => at !== place && id !== base.ids[at])) return null;
    [places[i], tokens[i]] = [place, ids[place]!];
  }
  const { tokenTypeIds, truncated } = base;
  return (chosen) => {
    const ids = base.ids.slice();
    for (const each of chosen) ids[places[each]!] = tokens[each]!;
    return { ids, tokenTypeIds, truncated };
  };
}
