/** Contractions that are separate words: do n't, it 's, they 're. The apostrophe may be ’ or '. */
const negation = "n['’]t(?![\\p{L}\\p{N}])";
const ending = "['’](?:s|m|d|re|ve|ll)(?![\\p{L}\\p{N}])";
const letter = `(?!${negation})[\\p{L}\\p{M}\\p{N}]`;
// 3.50, 10/10, 9:30, 1980s, 1st
const number = "\\p{N}+(?:[.,:/]\\p{N}+)*[\\p{L}\\p{M}]*";
// Letters, possibly with an apostrophe or asterisks inside (o'toole, sh*t).
const letters = `(?:${letter})+(?:(?!${ending})(?:['’]|\\*+)(?=\\p{L})(?:${letter})+)*`;

/**
 * The first alternative that matches is a word. White space is dropped and everything else is kept,
 * so the concatenated words are the text without white space. The rules are those of the published
 * English substitution tables and language-model scores. The only difference is that words joined
 * by a missing space are separated.
 */
function createWordSource(keepsHyphens: boolean): string {
  return [
    // Emoticons: :) ;-) :o)
    "[:;][-o]?[)(](?![\\p{L}\\p{N}])",
    // Abbreviations with their last period (e.g., vs.), and those without it (t.v, u.s).
    "(?:[ei]\\.[eg]\\.|vs\\.)(?![\\p{L}\\p{N}])",
    "\\p{L}(?:\\.\\p{L})+(?![\\p{L}\\p{N}])",
    negation,
    ending,
    "can(?=not(?![\\p{L}\\p{N}]))",
    keepsHyphens ? `(?:${number}|${letters})(?:-(?:${number}|${letters}))*` : `${number}|${letters}`,
    // Repeated periods and dashes.
    "\\.{2,}|-{2,}",
    "\\S",
  ].join("|");
}

/** The classes for ASCII texts. Matching is several times as fast. */
const asciiClasses = {
  "[\\p{L}\\p{M}\\p{N}]": "[a-z0-9]",
  "[\\p{L}\\p{N}]": "[a-z0-9]",
  "[\\p{L}\\p{M}]": "[a-z]",
  "\\p{L}": "[a-z]",
  "\\p{N}": "[0-9]",
};

function createPatterns(keepsHyphens: boolean): { readonly ascii: RegExp; readonly any: RegExp } {
  const source = createWordSource(keepsHyphens);
  const ascii = Object.entries(asciiClasses).reduce(
    (text, [unicode, range]) => text.replaceAll(unicode, range),
    source,
  );
  return { ascii: new RegExp(ascii, "gi"), any: new RegExp(source, "giu") };
}

const split = createPatterns(false);
const hyphenated = createPatterns(true);

/**
 * Returns the rules of `splitWords` for regular expressions that distinguish upper and lower case,
 * such as those of tokenizer.json.
 */
export function getCaseSensitiveWordPattern(keepsHyphens: boolean): string {
  // The long s is the only other letter that folds to one of the rules.
  const spellOut = (letter: string): string => `${letter}${letter.toUpperCase()}${letter === "s" ? "ſ" : ""}`;
  return createWordSource(keepsHyphens).replaceAll(/\\p\{\w+\}|\\.|\(\?[:!=]|\[[^\]]*\]|[a-z]/g, (part) => {
    if (part.length === 1) return `[${spellOut(part)}]`;
    // JavaScript's white space has U+FEFF, but not U+0085. That of other languages is the reverse.
    if (part === "\\S") return "(?!\ufeff)[\\S\u0085]";
    return part.startsWith("[") && !part.includes("\\p") ? part.replaceAll(/[a-z]/g, spellOut) : part;
  });
}

/** Splits a text into words by white space and punctuation. Hyphens inside words may be kept. */
export function splitWords(text: string, keepsHyphens = false): string[] {
  const { ascii, any } = keepsHyphens ? hyphenated : split;
  return text.match(/^[\0-\x7f]*$/.test(text) ? ascii : any) ?? [];
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
