/** Letters in negative circles and squares, and regional indicators: first code point of A to Z. */
const enclosedLetters = [0x1f150, 0x1f170, 0x1f1e6];
/** Digits 1 to 9 in negative, sans-serif and double circles: first code point. */
const enclosedDigits = [0x2776, 0x2780, 0x278a, 0x24f5];
const enclosed =
  /[\u{1f150}-\u{1f169}\u{1f170}-\u{1f189}\u{1f1e6}-\u{1f1ff}\u2776-\u277e\u2780-\u2788\u278a-\u2792\u24f5-\u24fd]/gu;

function foldEnclosed(character: string): string {
  const code = character.codePointAt(0)!;
  const letters = enclosedLetters.find((first) => code >= first && code < first + 26);
  if (letters !== undefined) return String.fromCharCode(65 + code - letters);
  const digits = enclosedDigits.find((first) => code >= first && code < first + 9);
  return digits === undefined ? character : String.fromCharCode(49 + code - digits);
}

/** Strokes through a letter, which NFKC has not composed with it, and frames around it. */
const overlays = /[\u0334-\u0338\u20d2\u20d3\u20d8-\u20da\u20e5\u20e6\u20ea\u20eb]|\p{Me}/gu;
/** A letter with marks, of scripts whose languages put few of them on one letter. */
const lettersWithMarks = /([\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{Script=Common}])(\p{M}+)/gu;
/** Classical Greek has letters with three marks, all other languages have at most two. */
const maxMarks = 3;
const latinLetter = /\p{Script=Latin}\p{M}*/gu;
/** Unicode has most letters of languages with their marks. What is left over is one mark, on few letters of a word. */
const maxLooseMarks = 1;
const minLooseLetters = 3;

/** Removes the marks of a word if it has more than any language uses, on one letter or on most letters. */
function foldMarks(word: string): string {
  if (!/\p{M}/u.test(word)) return word;
  const decomposed = word.normalize("NFD");
  const arePiled = Array.from(decomposed.matchAll(lettersWithMarks)).some(([, , marks]) => marks!.length > maxMarks);
  if (!arePiled && !hasLooseMarks(word.normalize("NFC"))) return word;
  return decomposed.replaceAll(lettersWithMarks, "$1").normalize("NFC");
}

function hasLooseMarks(word: string): boolean {
  const marks = Array.from(word.matchAll(latinLetter), ([letter]) => [...letter].length - 1);
  const loose = marks.filter((count) => count > 0).length;
  return Math.max(...marks) > maxLooseMarks || (loose >= minLooseLetters && loose > (2 / 3) * marks.length);
}

/** Turned letters that hardly any language uses, and the letters that they show. */
const turned = new Map(Array.from("ɐɟƃɥᴉɾʞʅɹʇʌʍʎℲ⅁⅄", (letter, i) => [letter, "afghijklrtvwyFGY"[i]!]));
/** Characters that are other ones when turned. Languages of Africa use ɔ and ǝ, and formulas ∀. */
const turnedToo = new Map(
  Array.from("ɔǝɯbdlnopqsuxz∀ƆƎ˥Ԁ⊥┴∩ΛHIMNOSWXZ¡¿", (each, i) => [each, "cemqpluodbsnxzACELPTTUVHIWNOSMXZ!?"[i]!]),
);
const allTurned = [...turned.keys(), ...turnedToo.keys()].join("");
const turnedRun = new RegExp(
  `(?<![\\p{L}\\p{M}\\p{N}])[${allTurned}](?:[${allTurned} ]*[${allTurned}])?(?![\\p{L}\\p{M}\\p{N}])`,
  "gu",
);
const certainlyTurned = new RegExp(`[${[...turned.keys()].join("")}]`, "u");

/** Turns words upside down, if they are. They are read from right to left. */
function foldTurned(run: string): string {
  if (!certainlyTurned.test(run)) return run;
  return Array.from(run, (letter) => turned.get(letter) ?? turnedToo.get(letter) ?? letter)
    .reverse()
    .join("");
}

/** Letters that look like a lowercase letter but are not its confusables: small capitals and turned letters. */
export const letterForms: ReadonlyMap<string, string> = new Map([
  ...Array.from("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡʏᴢ", (letter, i) => [letter, "abcdefghijklmnopqrstuvwyz"[i]!] as const),
  ...turned,
]);

/** Replaces what a person reads as letters: framed, struck through, piled with marks, or upside down. Expects NFKC. */
export function foldVisible(text: string): string {
  return text
    .replaceAll(enclosed, foldEnclosed)
    .replaceAll(overlays, "")
    .replaceAll(/\S+/gu, foldMarks)
    .replaceAll(turnedRun, foldTurned);
}
