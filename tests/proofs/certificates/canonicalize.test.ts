import fc from "fast-check";
import { expect, test } from "vitest";
import { Rng } from "../../../src/base/rng.js";
import { canonicalize } from "../../../src/proofs/certificates/index.js";
import { listConfusables } from "../../../src/text/confusables.js";
import { chooseExtent } from "../../extent.js";

test.each([
  // NFKC
  ["ﬁne ﬁlm", "fine film"],
  ["ｆｒｅｅ　ｍｏｎｅｙ", "free money"],
  ["𝓯𝓻𝓮𝓮 ①", "free 1"],
  // Confusables: Cyrillic and Greek letters among Latin ones, or a word of them alone.
  ["frее mоnеу", "free money"],
  ["m๐ney in 19৭9", "money in 1999"],
  ["раура", "paypa"],
  ["сор", "cop"],
  ["“don’t” — stop", '"don\'t" - stop'],
  // Words of other scripts, and numbers, stay.
  ["Привет, мир!", "Привет, мир!"],
  ["αβγδ", "αβγδ"],
  ["١٥", "١٥"],
  ["naïve café", "naïve café"],
  // A Cyrillic letter and a mark become a Latin letter with an accent.
  ["cо\u0301r", "cór"],
  // Invisible and bidirectional characters
  ["f\u200br\u00ade\u2060e", "free"],
  ["\u202efree\u202c", "free"],
  ["fre\u2061e\ufe0f\0", "free"],
  // Hidden text comes last.
  ["fre\u{e0065}\u{e0076}\u{e0069}\u{e006c}e", "free evil"],
  // Joiners that a script or an emoji needs stay.
  ["می\u200cخواهم fre\u200ce", "می\u200cخواهم free"],
  ["क्\u200dष", "क्\u200dष"],
  ["\u{1f469}\u200d\u2764\ufe0f\u200d\u{1f468} a\u200db", "\u{1f469}\u200d\u2764\u200d\u{1f468} ab"],
  // Letters that are struck through, piled with marks, framed, small or upside down.
  ["f\u0336r\u0336e\u0336e\u0336 m\u0338o\u0338n\u0338e\u0338y\u0338 a ≠ b", "free money a ≠ b"],
  ["Z\u0338\u0321\u0353\u0344\u0301a\u0300l\u0317g\u030bo\u0323", "Zalgo"],
  // Two marks on a letter, or one on most letters, which Unicode does not have as one character with it.
  ["f\u030a\u0324r\u0304\u0323e\u0308\u0330e m\u030bo\u0324n\u030ae\u0325y\u0304", "free money"],
  ["ẹ̀ ọ́ Việt ᾧ שָׁלוֹם", "ẹ̀ ọ́ Việt ᾧ שָׁלוֹם"],
  ["ọ̀rọ̀ ọ̀tọ̀ọ̀tọ̀ àṣẹ́ ñuqañe g̃uarani ǫ́ m̧ajel̦", "ọ̀rọ̀ ọ̀tọ̀ọ̀tọ̀ àṣẹ́ ñuqañe g̃uarani ǫ́ m̧ajel̦"],
  ["🅵🆁🅴🅴 🅜🅞🅝🅔🅨 🇫🇷🇪🇪 🄵🅁🄴🄴 ❶➁➌", "FREE MONEY FREE FREE 123"],
  ["ꜰʀᴇᴇ ᴍᴏɴᴇʏ", "free money"],
  ["ʎǝuoɯ ǝǝɹɟ", "free money"],
  ["ɯʅᴉɟ pooƃ", "good film"],
  ["hɐppy ʍin", "happy win"],
  ["¡ʍou ⅄ƎNOW ƎƎɹℲ", "FrEE MONEY now!"],
  ["∀x ∈ X, A ∩ B", "∀x ∈ X, A ∩ B"],
  // Words of Akan and plain words are not upside down.
  ["ɔdɔ wo ǝ soon", "ɔdɔ wo ǝ soon"],
  // Spaced letters
  ["v i a g r a", "viagra"],
  ["buy v.i.a.g.r.a now", "buy viagra now"],
  ["c-h-e-a-p", "cheap"],
  ["v\u200b i а g r a!", "viagra!"],
  ["plan a or b", "plan a or b"],
  ["I a", "I a"],
  ["x86 a-b", "x86 a-b"],
  // ASCII characters stay, although UTS #39 maps them.
  ["model m 10 Il", "model m 10 Il"],
  ["  two \n\t spaces ", "two spaces"],
  ["\u2800two\u2800spaces", "two spaces"],
  ["", ""],
])("the canonical form of %j is %j", (text, expected) => {
  expect(canonicalize(text)).toBe(expected);
});

const confusables = listConfusables();

test("the table of confusables has hundreds of characters, and maps to canonical ones", () => {
  expect(confusables.length).toBeGreaterThan(400);
  for (const [source, target] of confusables) {
    expect(source).toMatch(/^[^\0-\x7f]$/u);
    expect(target).toMatch(/^[!-~]$/);
  }
});

/** Texts of characters that the steps of canonicalization change, besides any others. */
const characters = fc.oneof(
  fc.constantFrom(..."aeioxyzAZ019 .-_*|~'\n\t"),
  fc.constantFrom(...confusables.map(([source]) => source)),
  fc.constantFrom(
    ..."ɐɔǝɟɯuǝ🅰🆁🇩🇪❶ᴀʀ\u200c\u200d\u2062\u2064\u{1f469}\u2764\u{e0061}\u{e007f}\u{e0101}\ufe01می\u0336\u20e3",
  ),
  fc.constantFrom(
    ..."\u200b\u00ad\u202e\u2066\ufe0f\u0301\u0327\u0338\u0345\u1160\u3164\uffa0\ud800\udc00\0\u0085\u00a0",
  ),
  fc.constantFrom(..."éñŁøﬁ①½㎏ﷺΆйёї가각ᄀ"),
  fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
);
const anyText = fc.array(characters, { maxLength: 40 }).map((list) => list.join(""));

test("canonicalization is idempotent", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const canonical = canonicalize(text);
      expect(canonicalize(canonical)).toBe(canonical);
    }),
    { numRuns: chooseExtent(700, 50_000), seed: 1 },
  );
}, 900_000);

/** Characters that look like each ASCII character. Digits of other scripts are letters only inside words, and turned letters may turn a word. */
const lookalikes = new Map<string, string[]>();
for (const [source, target] of confusables)
  if (!/[\p{N}ɐɟƃɥᴉɾʞʅɹʇʌʍʎ]/u.test(source)) lookalikes.set(target, [...(lookalikes.get(target) ?? []), source]);

test("every disguise of a text within the class gives the same answer", () => {
  const rng = new Rng("disguise");
  const pick = <T>(list: readonly T[]): T => list[rng.integer(list.length)]!;
  const invisible = ["\u200b", "\u200d", "\u2060", "\u00ad", "\u202e", "\u2069", "\ufe0f", "\u2062"];
  const toFullWidth = (character: string): string =>
    /[!-~]/.test(character) ? String.fromCodePoint(character.codePointAt(0)! + 0xfee0) : character;
  const disguise = (character: string): string => {
    const kind = rng.integer(4);
    if (kind === 0 && /[a-z]/i.test(character)) return pick(lookalikes.get(character) ?? [character]);
    if (kind === 1) return toFullWidth(character);
    if (kind === 2) return pick(invisible) + character + pick(invisible);
    return character === " " && kind === 3 ? "\u2003\u00a0" : character;
  };
  const words = ["free", "money", "b2b", "Click", "here", "win", "cash", "account", "now"];
  /** A model whose answer depends on every character. */
  const answer = (text: string): string => canonicalize(text);
  for (let i = 0; i < chooseExtent(8000, 150_000); i++) {
    const text = Array.from({ length: 1 + rng.integer(5) }, () => pick(words)).join(" ");
    const spaced = text.replace("money", () => pick(["money", "m o n e y", "m.o.n.e.y", "m*o*n*e*y"]));
    const disguised = Array.from(spaced, disguise).join("");
    if (answer(disguised) !== answer(text)) expect(disguised).toBe(text);
  }
}, 900_000);

test("canonicalization takes linear time", () => {
  // Quadratic time would take minutes.
  const size = 50_000;
  for (const unit of ["a\u0301", "\u0301\u0327", "a ", "а", "a.", "\u200b", "ﷺ"])
    expect(canonicalize(unit.repeat(size / unit.length)).length).toBeLessThan(20 * size);
});
