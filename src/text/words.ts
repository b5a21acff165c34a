/** Contractions that are separate words: do n't, it 's, they 're. The apostrophe may be ’ or '. */
const negation = "n['’]t(?![\\p{L}\\p{N}])";
const ending = "['’](?:s|m|d|re|ve|ll)(?![\\p{L}\\p{N}])";
const letter = `(?!${negation})[\\p{L}\\p{M}\\p{N}]`;

/**
 * The first alternative that matches is a word. White space is dropped and everything else is kept,
 * so the concatenated words are the text without white space. The rules are those of the published
 * English substitution tables and language-model scores. The only difference is that words joined
 * by a missing space are separated.
 */
const wordSource = [
  // Emoticons: :) ;-) :o)
  "[:;][-o]?[)(](?![\\p{L}\\p{N}])",
  // Abbreviations with their last period (e.g., vs.), and those without it (t.v, u.s).
  "(?:[ei]\\.[eg]\\.|vs\\.)(?![\\p{L}\\p{N}])",
  "\\p{L}(?:\\.\\p{L})+(?![\\p{L}\\p{N}])",
  negation,
  ending,
  "can(?=not(?![\\p{L}\\p{N}]))",
  // 3.50, 10/10, 9:30, 1980s, 1st
  "\\p{N}+(?:[.,:/]\\p{N}+)*[\\p{L}\\p{M}]*",
  // Letters, possibly with an apostrophe or asterisks inside (o'toole, sh*t).
  `(?:${letter})+(?:(?!${ending})(?:['’]|\\*+)(?=\\p{L})(?:${letter})+)*`,
  // Repeated periods and dashes.
  "\\.{2,}|-{2,}",
  "\\S",
].join("|");

const anyWord = new RegExp(wordSource, "giu");
/** The classes for ASCII texts. Matching is several times as fast. */
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

/**
 * Returns the rules of `splitWords` for regular expressions that distinguish upper and lower case,
 * such as those of tokenizer.json.
 */
export function getCaseSensitiveWordPattern(): string {
  // The long s is the only other letter that folds to one of the rules.
  const spellOut = (letter: string): string => `${letter}${letter.toUpperCase()}${letter === "s" ? "ſ" : ""}`;
  return wordSource.replaceAll(/\\p\{\w+\}|\\.|\(\?[:!=]|\[[^\]]*\]|[a-z]/g, (part) => {
    if (part.length === 1) return `[${spellOut(part)}]`;
    // JavaScript's white space has U+FEFF, but not U+0085. That of other languages is the reverse.
    if (part === "\\S") return "(?!\ufeff)[\\S\u0085]";
    return part.startsWith("[") && !part.includes("\\p") ? part.replaceAll(/[a-z]/g, spellOut) : part;
  });
}

/** Splits a text into words by white space and punctuation. */
export function splitWords(text: string): string[] {
  return text.match(/^[\0-\x7f]*$/.test(text) ? asciiWord : anyWord) ?? [];
}

const opens = /^[([{$£€#]$/;
const closes = new RegExp(`^(?:[)\\]},;:!?%…]|\\.+|${negation}|${ending})$`, "iu");
const joins = /^[-/]$/;
const wordLike = /[\p{L}\p{N}]$/u;

/**
 * Joins words into a readable text: no space before a period or after an opening bracket, and
 * hyphens and contractions are attached. Splitting the result gives the same words again: a space
 * remains wherever joining would change them.
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

/** Words per piece of a long chunk. Trying every end of a piece takes quadratic time. */
const maxPieceWords = 32;

/** Joins words without spaces, except where `splitWords` would not separate them again. */
function joinChunk(chunk: readonly string[]): string {
  const whole = chunk.join("");
  if (areSameWords(splitWords(whole), chunk)) return whole;
  const pieces: string[] = [];
  for (let start = 0; start < chunk.length; start += maxPieceWords)
    pieces.push(joinPiece(chunk.slice(start, start + maxPieceWords)));
  return pieces.join(" ");
}

/** Joins as many words as possible, from the left. */
function joinPiece(chunk: readonly string[]): string {
  for (let end = chunk.length; end > 1; end--) {
    const head = chunk.slice(0, end);
    if (!areSameWords(splitWords(head.join("")), head)) continue;
    return end === chunk.length ? head.join("") : `${head.join("")} ${joinPiece(chunk.slice(end))}`;
  }
  return chunk.length === 1 ? chunk[0]! : `${chunk[0]} ${joinPiece(chunk.slice(1))}`;
}

function areSameWords(first: readonly string[], second: readonly string[]): boolean {
  return first.length === second.length && first.every((word, index) => word === second[index]);
}

/**
 * English function words: pronouns, determiners, prepositions, conjunctions, auxiliaries and
 * particles.
 */
const stopWords: ReadonlySet<string> = new Set(
  `
  a an the this that these those each every either neither some any no none all both half few fewer many much more
  most less least several such own same other another i me my mine myself we us our ours ourselves you your yours
  yourself yourselves he him his himself she her hers herself it its itself they them their theirs themselves who
  whom whose which what whatever whoever whichever one ones someone somebody something anyone anybody anything
  everyone everybody everything nobody nothing and or but nor so yet if unless because since although though while
  whereas whether than as like until till once lest at by for from in into of off on onto out over to toward towards
  under up upon with within without about above across after against along amid among around before behind below
  beneath beside besides between beyond despite down during except inside near outside past per through throughout
  via am is are was were be been being have has had having do does did doing done can could may might must shall
  should will would ought cannot not n't 's 'm 're 've 'd 'll s t d m ll re ve ain aren couldn didn doesn don hadn
  hasn haven isn mightn mustn needn shan shouldn wasn weren won wouldn here there where when why how then now too
  very just only also even again ever never still already almost
`
    .trim()
    .split(/\s+/),
);

/** Checks whether a word, in any letter case, is a stop word. */
export function isStopWord(word: string): boolean {
  return stopWords.has(word.toLowerCase().replaceAll("’", "'"));
}
