import type { Rng } from "../../base/rng.js";
import type { Transformation } from "../protocol.js";
import { confusables, leetDigits } from "./character-tables.js";
import { replaceWords } from "./replace-words.js";

/**
 * Classes of rewritten texts by what people can still do with them, from the strictest class to the widest:
 * - looks-same: it looks like the original on a screen.
 * - reads-same: people read the same words, written in an unusual way.
 * - decodable: a language model, or a person with a tool, can get the words back.
 */
export const validityClasses = ["looks-same", "reads-same", "decodable"] as const;
export type ValidityClass = (typeof validityClasses)[number];

/** A way to write text that hides it from a classifier. */
export interface Rewriting {
  readonly name: string;
  readonly validity: ValidityClass;
  /** Writes a word, or a complete text if `isWhole`, in another way. */
  rewrite(text: string): string;
  /** True if it writes complete texts, because it has no meaning for a single word. */
  readonly isWhole?: boolean;
}

const zeroWidthSpace = "\u200b";
const softHyphen = "\u00ad";
/** Right-to-left override and its end: the reversed characters are displayed in reading order. */
const [rightToLeft, endOfOverride] = ["\u202e", "\u202c"];
const [longStroke, acute, tilde] = ["\u0336", "\u0301", "\u0330"];

const reverse = (text: string): string => [...text].reverse().join("");

const mapCharacters =
  (table: ReadonlyMap<string, string>) =>
  (word: string): string =>
    [...word].map((character) => table.get(character) ?? table.get(character.toLowerCase()) ?? character).join("");

/** Moves the letters a to z and A to Z to an alphabet that starts at other code points. */
const moveLetters =
  (lower: number, upper = lower) =>
  (word: string): string =>
    word.replaceAll(/[a-z]/gi, (letter) => {
      const isLower = letter >= "a";
      return String.fromCodePoint((isLower ? lower : upper) + letter.charCodeAt(0) - (isLower ? 97 : 65));
    });

const rotate13 = (text: string): string =>
  text.replaceAll(/[a-z]/gi, (letter) => {
    const first = letter >= "a" ? 97 : 65;
    return String.fromCharCode(first + ((letter.charCodeAt(0) - first + 13) % 26));
  });

const upsideDown = new Map(
  [..."abcdefghijklmnopqrstuvwxyz"].map((letter, i) => [letter, [..."ɐqɔpǝɟƃɥᴉɾʞlɯuodbɹsʇnʌʍxʎz"][i]!]),
);
const smallCapitals = new Map(
  [..."abcdefghijklmnopqrstuvwxyz"].map((letter, i) => [letter, [..."ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘǫʀꜱᴛᴜᴠᴡxʏᴢ"][i]!]),
);

/** Puts a space into the middle of a word. */
function splitInHalves(word: string): string {
  const letters = [...word];
  const middle = Math.ceil(letters.length / 2);
  return letters.length < 2 ? word : `${letters.slice(0, middle).join("")} ${letters.slice(middle).join("")}`;
}

/** Writes ASCII as invisible tag characters behind a harmless word. */
const hideInTags = (text: string): string =>
  `hello${text.replaceAll(/[^ -~]/gu, "").replaceAll(/./gu, (letter) => String.fromCodePoint(0xe0000 + letter.charCodeAt(0)))}`;

const toBytes = (text: string): string[] =>
  [...new TextEncoder().encode(text)].map((byte) => String.fromCharCode(byte));
const toHex = (text: string): string =>
  [...new TextEncoder().encode(text)].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/**
 * Lists the rewritings up to a class. Two of them take another look-alike from the table; without a
 * table, there is one look-alike per letter.
 */
export function listRewritings(
  validity: ValidityClass = "decodable",
  lookAlikes: ReadonlyMap<string, readonly string[]> = new Map(),
): Rewriting[] {
  const rare = new Map([...lookAlikes].map(([letter, all]) => [letter, all.at(-1)!]));
  const sounds: Omit<Rewriting, "validity">[] = [
    { name: "letter-spacing", rewrite: (word) => [...word].join(" ") },
    { name: "leetspeak", rewrite: mapCharacters(leetDigits) },
    { name: "split words", rewrite: splitInHalves },
    { name: "dots between letters", rewrite: (word) => [...word].join(".") },
    // A letter before a word breaks the tokens of BPE and WordPiece (TokenBreak).
    { name: "a letter before words", rewrite: (word) => `x${word}` },
    { name: "capital letters", rewrite: (word) => word.toUpperCase() },
    { name: "doubled letters", rewrite: (word) => [...word].map((letter) => letter + letter).join("") },
    { name: "fullwidth letters", rewrite: moveLetters(0xff41, 0xff21) },
    { name: "bold letters", rewrite: moveLetters(0x1d41a, 0x1d400) },
    { name: "circled letters", rewrite: moveLetters(0x24d0, 0x24b6) },
    { name: "squared letters", rewrite: moveLetters(0x1f170) },
    { name: "small capitals", rewrite: mapCharacters(smallCapitals) },
    { name: "upside-down letters", rewrite: (word) => reverse(mapCharacters(upsideDown)(word)) },
    { name: "strike-through", rewrite: (word) => [...word].map((letter) => letter + longStroke).join("") },
    { name: "stacked marks", rewrite: (word) => [...word].map((letter) => letter + acute + tilde).join("") },
    { name: "no spaces", rewrite: (text) => text.replaceAll(/\s+/gu, ""), isWhole: true },
    { name: "underscores for spaces", rewrite: (text) => text.replaceAll(/\s+/gu, "_"), isWhole: true },
  ];
  const looks: Omit<Rewriting, "validity">[] = [
    { name: "homoglyphs", rewrite: mapCharacters(confusables) },
    ...(rare.size > 0 ? [{ name: "rare homoglyphs", rewrite: mapCharacters(rare) }] : []),
    { name: "zero-width", rewrite: (word: string) => [...word].join(zeroWidthSpace) },
    { name: "soft hyphens", rewrite: (word: string) => [...word].join(softHyphen) },
    { name: "bidirectional", rewrite: (word: string) => `${rightToLeft}${reverse(word)}${endOfOverride}` },
  ];
  const codes: Omit<Rewriting, "validity">[] = [
    { name: "base64", rewrite: (text) => btoa(toBytes(text).join("")), isWhole: true },
    { name: "hexadecimal", rewrite: toHex, isWhole: true },
    { name: "rot13", rewrite: rotate13, isWhole: true },
    { name: "reversed text", rewrite: reverse, isWhole: true },
    { name: "hidden tags", rewrite: hideInTags, isWhole: true },
  ];
  const byClass = { "looks-same": looks, "reads-same": sounds, decodable: codes };
  const allowed = validityClasses.slice(0, validityClasses.indexOf(validity) + 1);
  return allowed.flatMap((each) => byClass[each].map((rewriting) => ({ ...rewriting, validity: each })));
}

/** Rewrites every open word of a text. A rewriting of complete texts needs all words of a field to be open. */
export function rewriteText({ name, rewrite, isWhole = false }: Rewriting): Transformation {
  return {
    name: `${name} in the complete text`,
    kind: "text",
    apply(text, positions) {
      if (!isWhole)
        return [text.replaceAll(new Map(positions.map((position) => [position, rewrite(text.getWord(position))])))];
      const open = new Set(positions);
      const fields = new Set(positions.map((position) => text.slots[position]!.field));
      const isClosed = text.slots.some(({ field }, position) => fields.has(field) && !open.has(position));
      if (isClosed) return [];
      const texts = text.texts.map((each, field) => (fields.has(field) ? rewrite(each) : each));
      return [text.apply({ kind: "rewrite", texts })];
    },
  };
}

/** Versions of a word in which each letter is a random one of all its look-alikes. */
const drawnVersions = 4;

/** Writes one word with look-alikes of UTS #39, each letter with another one, so that no list of them is complete. */
export function drawLookAlikes(lookAlikes: ReadonlyMap<string, readonly string[]>): Transformation {
  const draw = (word: string, rng: Rng): string =>
    [...word]
      .map((letter) => {
        const all = [letter, ...(lookAlikes.get(letter) ?? [])];
        return all[rng.integer(all.length)]!;
      })
      .join("");
  return {
    name: "drawn look-alikes in a word",
    kind: "swap",
    apply: (text, positions, rng) =>
      replaceWords(text, positions, (word) => Array.from({ length: drawnVersions }, () => draw(word, rng))),
  };
}

export function rewriteWord({ name, rewrite }: Rewriting): Transformation {
  return {
    name: `${name} in a word`,
    kind: "swap",
    apply: (text, positions) => replaceWords(text, positions, (word) => [rewrite(word)]),
  };
}
