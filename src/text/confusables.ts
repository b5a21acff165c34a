import unhomoglyph from "unhomoglyph";
import { letterForms } from "./fold-visible.js";

/** Quotation marks and dashes that UTS #39 maps to several characters, or not to ASCII. */
const punctuation = { '"': "“”„‟″‶", "-": "—―" };

const marks: ReadonlyMap<string, string> = new Map(
  Object.entries(punctuation).flatMap(([target, sources]) =>
    [...sources].map((each): [string, string] => [each, target]),
  ),
);
const forms: ReadonlyMap<string, string> = new Map(letterForms);

const known = new Map<string, string | undefined>();

/**
 * The ASCII character that a character looks like, by the confusables of UTS #39 (Unicode 13, from
 * the package unhomoglyph); undefined if there is none. UTS #39 also maps ASCII characters (m to rn,
 * 1 to l), which no model could read. Here ASCII characters stay. A letter or digit only becomes a
 * letter or digit.
 */
export function getConfusable(character: string): string | undefined {
  if (known.has(character)) return known.get(character);
  const target = marks.get(character) ?? findPublished(character) ?? forms.get(character);
  known.set(character, target);
  return target;
}

function findPublished(character: string): string | undefined {
  const isCandidate =
    /^[^\0-\x7f]$/u.test(character) &&
    // The others are already replaced by NFKC, sometimes by another character.
    character === character.normalize("NFKC") &&
    // Marks belong to the character before them.
    !/\p{M}/u.test(character);
  if (!isCandidate) return undefined;
  const target = unhomoglyph(character);
  const isAllowed = /^[!-~]$/.test(target) && (!/[\p{L}\p{N}]/u.test(character) || /[a-z0-9]/i.test(target));
  return isAllowed ? target : undefined;
}

/** No character above is confusable with ASCII. */
const lastPlane = 0x1ffff;

/** Every confusable character with its ASCII character, in the order of their code points. */
export function listConfusables(): [source: string, target: string][] {
  const found: [string, string][] = [];
  for (let code = 0x80; code <= lastPlane; code++) {
    if (code >= 0xd800 && code <= 0xdfff) continue;
    const source = String.fromCodePoint(code);
    const target = getConfusable(source);
    if (target !== undefined) found.push([source, target]);
  }
  return found;
}

/** The characters that look like each ASCII character (UTS #39), in the order of their code points. */
export function listLookAlikes(): ReadonlyMap<string, readonly string[]> {
  const byTarget = new Map<string, string[]>();
  for (const [source, target] of listConfusables()) byTarget.set(target, [...(byTarget.get(target) ?? []), source]);
  return byTarget;
}
