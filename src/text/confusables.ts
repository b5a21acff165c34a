import { createRequire } from "node:module";
import { letterForms } from "./fold-visible.js";

/** Quotation marks and dashes that UTS #39 maps to several characters, or not to ASCII. */
const punctuation = { '"': "“”„‟″‶", "-": "—―" };

/**
 * The characters that look like one ASCII character, by the confusables of UTS #39 (Unicode 13,
 * from the package unhomoglyph). UTS #39 also maps ASCII characters (m to rn, 1 to l), which no
 * model could read. Here ASCII characters stay. A letter or digit only becomes a letter or digit.
 */
export const confusables: ReadonlyMap<string, string> = readConfusables();

function readConfusables(): Map<string, string> {
  const data = createRequire(import.meta.url)("unhomoglyph/data.json") as Readonly<Record<string, string>>;
  const entries = Object.entries(data).filter(
    ([source, target]) =>
      /^[^\0-\x7f]$/u.test(source) &&
      // The others are already replaced by NFKC, sometimes by another character.
      source === source.normalize("NFKC") &&
      /^[!-~]$/.test(target) &&
      // Marks belong to the character before them.
      !/\p{M}/u.test(source) &&
      (!/[\p{L}\p{N}]/u.test(source) || /[a-z0-9]/i.test(target)),
  );
  const extra = Object.entries(punctuation).flatMap(([target, sources]) => [...sources].map((each) => [each, target]));
  return new Map([...letterForms, ...entries, ...extra] as [string, string][]);
}
