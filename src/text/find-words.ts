/** A word as a range of characters of its text. */
export interface WordRange {
  readonly start: number;
  readonly end: number;
}

export interface WordPlace extends WordRange {
  /** Index of the text. */
  readonly field: number;
}

/** Finds the words of texts, in order. Each victim has its own, so that a word is one thing. */
export type WordFinder = (texts: readonly string[]) => readonly WordPlace[];

/** Marks that belong to a word only between its letters. */
const innerMarks = "'-_*@";
/** Letters, digits and marks, and three characters that homoglyph attacks put into words. */
const wordRun = /[\p{L}\p{N}'\-_*@\u02d7`\u00d7]+/gu;

/**
 * Finds the words of a text as TextAttack 0.3.11 does: runs of letters, digits and a few marks,
 * without marks at their ends. Punctuation and spaces are not part of any word.
 */
export function findWords(text: string): WordRange[] {
  const ranges: WordRange[] = [];
  for (const match of text.matchAll(wordRun)) {
    let start = match.index;
    let end = start + match[0].length;
    while (start < end && innerMarks.includes(text[start]!)) start++;
    while (end > start && innerMarks.includes(text[end - 1]!)) end--;
    if (start < end) ranges.push({ start, end });
  }
  return ranges;
}

/** A character that makes a run a word. */
const wordCharacter = /[\p{L}\p{N}\u02d7`\u00d7]/u;
/** Kinds of characters: inside of words only, between words, or what makes a run a word. */
const [markKind, gapKind, wordKind, unknownKind] = [0, 1, 2, 4];
const kinds = new Uint8Array(1 << 16).fill(unknownKind);

function findKind(point: number): number {
  const character = String.fromCodePoint(point);
  if (wordCharacter.test(character)) return wordKind;
  return innerMarks.includes(character) ? markKind : gapKind;
}

/** Counts the words of texts, as `findWords` finds them. This takes a tenth of the time. */
export function countWords(texts: readonly string[]): number {
  let count = 0;
  for (const text of texts) {
    let isWord = 0;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      let kind = kinds[code]!;
      if (kind === unknownKind) {
        const point = text.codePointAt(i)!;
        kind = findKind(point);
        // The kind of half a pair depends on the other half.
        if ((code & 0xf800) !== 0xd800) kinds[code] = kind;
        if (point > 0xffff) i++;
      }
      // A gap ends a word, and a word character begins one. Branches would be mispredicted at each word.
      count += isWord & kind;
      isWord = (isWord | (kind >> 1)) & ~kind;
    }
    count += isWord;
  }
  return count;
}

/** Finds the words of all fields: the word finder of victims that read subwords. */
export const findWordPlaces: WordFinder = (texts) =>
  texts.flatMap((text, field) => findWords(text).map((range) => ({ field, ...range })));

/** Finds given words in their texts, in order. `fields` has the index of each word's text. */
export function locateWords(
  texts: readonly string[],
  words: readonly string[],
  fields: ArrayLike<number>,
): WordPlace[] {
  const ends = texts.map(() => 0);
  return words.map((word, i) => {
    const field = fields[i]!;
    const start = texts[field]!.indexOf(word, ends[field]);
    if (start < 0) throw new Error(`the word "${word}" is not in its text`);
    ends[field] = start + word.length;
    return { field, start, end: start + word.length };
  });
}

export function isOneWord(text: string): boolean {
  const [first, second] = findWords(text);
  return first !== undefined && second === undefined && first.start === 0 && first.end === text.length;
}
