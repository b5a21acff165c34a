/** What ends a negation (do n't), and the other endings that are words of their own (it 's, they 're); ’ is as good as '. */
const negation = "n['’]t(?![\\p{L}\\p{N}])";
const ending = "['’](?:s|m|d|re|ve|ll)(?![\\p{L}\\p{N}])";
const letter = `(?!${negation})[\\p{L}\\p{M}\\p{N}]`;

/**
 * A word, by the first alternative that fits. White space separates and is dropped; everything else is kept, in order, so that the
 * words one after the other are the text without its white space. The cutting is the one that published substitution tables and
 * language-model scores for English were made with, save that words glued together by a missing space come apart.
 */
const wordSource = [
  // Faces: :) ;-) :o)
  "[:;][-o]?[)(](?![\\p{L}\\p{N}])",
  // Abbreviations: those that keep their last full stop, and those that leave it to the sentence (t.v, u.s).
  "(?:[ei]\\.[eg]\\.|vs\\.)(?![\\p{L}\\p{N}])",
  "\\p{L}(?:\\.\\p{L})+(?![\\p{L}\\p{N}])",
  negation,
  ending,
  "can(?=not(?![\\p{L}\\p{N}]))",
  // 3.50, 10/10, 9:30, 1980s, 1st
  "\\p{N}+(?:[.,:/]\\p{N}+)*[\\p{L}\\p{M}]*",
  // Letters; an apostrophe or stars inside belong to them (o'toole, sh*t).
  `(?:${letter})+(?:(?!${ending})(?:['’]|\\*+)(?=\\p{L})(?:${letter})+)*`,
  // Runs of full stops and of dashes.
  "\\.{2,}|-{2,}",
  "\\S",
].join("|");

const anyWord = new RegExp(wordSource, "giu");
/** The same for plain ASCII, several times as fast. */
const asciiClasses = {
  "[\\p{L}\\p{M}\\p{N}]": "[a-z0-9]",
  "[\\p{L}\\p{N}]": "[a-z0-9]",
  "[\\p{L}\\p{M}]": "[a-z]",
  "\\p{L}": "[a-z]",
  "\\p{N}": "[0-9]",
};
const asciiWord = new RegExp(
  Object.entries(asciiClasses).reduce((source, [unicode, ascii]) => source.replaceAll(unicode, ascii), wordSource),
  "gi",
);

/** Cuts a text into words by white space and punctuation. */
export function splitWords(text: string): string[] {
  return text.match(/^[\0-\x7f]*$/.test(text) ? asciiWord : anyWord) ?? [];
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
  return chunks.map(joinChunk).join(" ");
}

/** Words without spaces as far as they come apart again, and a space where they would not. */
function joinChunk(chunk: readonly string[]): string {
  for (let end = chunk.length; end > 1; end--) {
    const head = chunk.slice(0, end);
    if (!areSameWords(splitWords(head.join("")), head)) continue;
    return end === chunk.length ? head.join("") : `${head.join("")} ${joinChunk(chunk.slice(end))}`;
  }
  return chunk.length === 1 ? chunk[0]! : `${chunk[0]} ${joinChunk(chunk.slice(1))}`;
}

function areSameWords(first: readonly string[], second: readonly string[]): boolean {
  return first.length === second.length && first.every((word, index) => word === second[index]);
}
