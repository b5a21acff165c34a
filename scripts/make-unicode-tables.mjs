// Writes src/text/unicode-tables.ts: the character classes of the official tokenizer, tested for every code point.
// It uses an older Unicode version than Node, so \p{…} would differ and would change with the version of Node.
// Run by hand: node scripts/make-unicode-tables.mjs
import { writeFileSync } from "node:fs";
import { bertNormalizer, bertPreTokenizer, byteLevelPreTokenizer, nfdNormalizer } from "tokenizers";

const codePoints = [];
for (let code = 0; code <= 0x10ffff; code++) if (code < 0xd800 || code > 0xdfff) codePoints.push(code);
const off = { cleanText: false, handleChineseChars: false, stripAccents: false, lowercase: false };
const clean = bertNormalizer({ ...off, cleanText: true });
const strip = bertNormalizer({ ...off, stripAccents: true });
const space = bertNormalizer({ ...off, handleChineseChars: true });
const words = bertPreTokenizer();
const decompose = nfdNormalizer();
const bytes = byteLevelPreTokenizer(false, true);

const overlay = "\u0334"; // combining class 1: it moves before any other combining mark that the normalizer knows
const differs = (text) => decompose.normalizeString(text) !== text.normalize("NFD");
const joins = (text) => bytes.preTokenizeString(text).length === 1;

const classes = {
  whiteSpace: ["White space between words.", (c) => words.preTokenizeString(`a${c}b`).length === 2],
  punctuation: [
    "Punctuation: every character is a word (BERT).",
    (c) => words.preTokenizeString(`a${c}b`).length === 3,
  ],
  removed: [
    "Control, format and private-use characters that cleaning removes.",
    (c) => clean.normalizeString(c) === "",
  ],
  ideographs: ["Characters that get a space on both sides.", (c) => space.normalizeString(c) !== c],
  accents: ["Non-spacing marks that accent stripping removes.", (c) => strip.normalizeString(c) === ""],
  inert: [
    "Characters that the official canonical decomposition leaves unchanged, unlike Node.",
    (c) => differs(c) || differs(`a${c}${overlay}`),
  ],
  letters: ["Letters (byte-level BPE).", (c) => joins(`a${c}`)],
  numbers: ["Numbers (byte-level BPE).", (c) => joins(`1${c}`)],
};

/** Packs ranges as numbers in base 36, relative to the end of the previous range: "gap" or "gap-more". */
function pack(test) {
  const parts = [];
  let end = -1;
  for (let index = 0; index < codePoints.length; index++) {
    const first = codePoints[index];
    if (!test(String.fromCodePoint(first))) continue;
    let last = first;
    while (codePoints[index + 1] === last + 1 && test(String.fromCodePoint(last + 1))) {
      last++;
      index++;
    }
    const gap = (first - end).toString(36);
    parts.push(last > first ? `${gap}-${(last - first).toString(36)}` : gap);
    end = last;
  }
  return parts.join(" ");
}

let source = `// Written by scripts/make-unicode-tables.mjs. Ranges are in base 36: the gap after the previous range,
// then the number of further code points.
`;
for (const [name, [comment, test]] of Object.entries(classes)) {
  const lines = `export const ${name} = \`${pack(test)}\`;`.match(/.{1,119}(?: |$)/g);
  source += `\n/** ${comment} */\n${lines.map((line) => line.trim()).join("\n")}\n`;
}
writeFileSync(new URL("../src/text/unicode-tables.ts", import.meta.url), source);
