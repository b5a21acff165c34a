/** Neither letter nor digit may follow. */
const end = "(?![\\p{L}\\p{N}])";
/** What ends a negation (do n't), and the other endings that are words of their own (it 's, they 're); ’ is as good as '. */
const negation = `n['’]t${end}`;
const ending = `['’](?:s|m|d|re|ve|ll)${end}`;
const letter = `(?!${negation})[\\p{L}\\p{M}\\p{N}]`;

/**
 * A word, by the first alternative that fits. White space separates and is dropped; everything else is kept, in order, so that the
 * words one after the other are the text without its white space. The cutting is the one that published substitution tables and
 * language-model scores for English were made with, save that words glued together by a missing space come apart.
 */
const wordPattern = new RegExp(
  [
    // Faces: :) ;-) :o)
    `[:;][-o]?[)(]${end}`,
    // Abbreviations: those that keep their last full stop, and those that leave it to the sentence (t.v, u.s).
    `(?:[ei]\\.[eg]\\.|vs\\.)${end}`,
    `\\p{L}(?:\\.\\p{L})+${end}`,
    negation,
    ending,
    `can(?=not${end})`,
    // 3.50, 10/10, 9:30, 1980s, 1st
    `\\p{N}+(?:[.,:/]\\p{N}+)*[\\p{L}\\p{M}]*`,
    // Letters; an apostrophe or stars inside belong to them (o'toole, sh*t).
    `(?:${letter})+(?:(?!${ending})(?:['’]|\\*+)(?=\\p{L})(?:${letter})+)*`,
    // Runs of full stops and of dashes.
    "\\.{2,}|-{2,}",
    "\\S",
  ].join("|"),
  "giu",
);

/** Cuts a text into words by white space and punctuation. */
export function splitWords(text: string): string[] {
  return text.match(wordPattern) ?? [];
}

const opens = /^[([{$£€#]$/;
const closes = new RegExp(`^(?:[)\\]},;:!?%…]|\\.+|${negation}|${ending})$`, "iu");
const joins = /^[-/]$/;
const wordLike = /[\p{L}\p{N}]$/u;

/**
 * A readable text of words: no space before a full stop or after a bracket, hyphens and endings joined. Cutting it again gives the
 * same words: where a join would change them, spaces stay.
 */
export function joinWords(words: readonly string[]): string {
  const chunks: string[][] = [];
  const openQuotes = new Set<string>();
  let glueNext = true;
  words.forEach((word, index) => {
    const previous = words[index - 1] ?? "";
    const isQuote = /^["'`]$/.test(word);
    const closing = isQuote && openQuotes.delete(word);
    if (isQuote && !closing) openQuotes.add(word);
    const hyphen = joins.test(word) && wordLike.test(previous) && wordLike.test(words[index + 1] ?? "");
    if (index > 0 && (glueNext || hyphen || closing || closes.test(word))) chunks.at(-1)!.push(word);
    else chunks.push([word]);
    glueNext = hyphen || opens.test(word) || (isQuote && !closing);
  });
  return chunks.map((chunk) => (sameWords(splitWords(chunk.join("")), chunk) ? chunk.join("") : chunk.join(" "))).join(" ");
}

function sameWords(first: readonly string[], second: readonly string[]): boolean {
  return first.length === second.length && first.every((word, index) => word === second[index]);
}
