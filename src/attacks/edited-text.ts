import { findWordPlaces, type WordFinder, type WordPlace, type WordRange } from "../text/find-words.js";
import { alignWords } from "./word-changes.js";

/** One change of a text. Positions count the words of the text that the edit is applied to. */
export type Edit =
  | { readonly kind: "replace"; readonly position: number; readonly word: string }
  /** Puts a word before the word at `position`. */
  | { readonly kind: "insert"; readonly position: number; readonly word: string }
  | { readonly kind: "delete"; readonly position: number }
  /** Replaces the words at `position` and `position` + 1 by one word. */
  | { readonly kind: "merge"; readonly position: number; readonly word: string }
  /** Adds a word at the end of a field. */
  | { readonly kind: "append"; readonly field: number; readonly word: string }
  /** Adds a word at the beginning of a field. */
  | { readonly kind: "prepend"; readonly field: number; readonly word: string }
  /** Replaces all texts. The words are found anew and aligned with the original ones. */
  | { readonly kind: "rewrite"; readonly texts: readonly string[] };

/** A word of an edited text. */
export interface Slot extends WordPlace {
  /** Index of the original word that it comes from; -1 for an inserted word. */
  readonly origin: number;
}

/** A part of one field that is replaced by other characters. */
interface Splice extends WordRange {
  readonly field: number;
  readonly text: string;
}

/** The words of a base text that differ in a version of it, in the order of their positions. */
export interface Replacements {
  readonly positions: readonly number[];
  readonly words: readonly string[];
}

const noReplacements: Replacements = { positions: [], words: [] };

/** The characters and the words of a base text. */
interface BaseSource {
  readonly texts: readonly string[];
  locate(): Slot[];
}

/** The effect of the last edit. */
type LastEdit = Pick<EditedText, "numChanged" | "edit" | "position" | "origin">;

/**
 * A text after some edits. It never changes: `apply` returns a new text. Most candidates differ from
 * the original text in a few words only. They are these words and a base text, and nobody writes
 * their characters before somebody reads them. Edits that move words give a new base.
 */
export class EditedText {
  #texts: readonly string[] | undefined;
  #slots: readonly Slot[] | undefined;
  #locate: (() => Slot[]) | undefined;
  /** The words of a base text. */
  #baseWords: readonly string[] | undefined;
  /** For each word of a base text: 1 if no character is between it and the word before. */
  #glued: Uint8Array | undefined;
  /** The word finder of an original text. */
  #find: WordFinder = findWordPlaces;
  /** The similarity to the reference text, if a constraint has computed it. */
  similarity: number | undefined;
  /** The text with other words at some positions: the original one, or the last one whose words were moved. */
  readonly base: EditedText;
  readonly original: EditedText;
  #replacements: Replacements;
  #added: string | null;
  /** Words that were replaced, inserted or deleted. */
  readonly numChanged: number;
  /** The last edit; null for the original text. */
  readonly edit: Edit | null;
  /** Position of the word that the last edit changed; -1 for the original text. */
  readonly position: number;
  /** Index of the original word that the last edit changed; -1 for an insertion. */
  readonly origin: number;

  private constructor(
    original: EditedText | null,
    { numChanged, edit, position, origin }: LastEdit,
    /** The characters and words of a base text, or a base text. */
    source: BaseSource | EditedText,
    /** The replaced words of the base before the last edit, and the word of the last edit; null if it is among them. */
    replacements: Replacements,
    added: string | null,
  ) {
    this.#replacements = replacements;
    this.#added = added;
    this.original = original ?? this;
    this.numChanged = numChanged;
    this.edit = edit;
    this.position = position;
    this.origin = origin;
    if (source instanceof EditedText) this.base = source;
    else {
      this.base = this;
      this.#texts = source.texts;
      this.#locate = source.locate;
    }
  }

  /** Finds the words of the original texts. */
  static create(texts: readonly string[], find: WordFinder = findWordPlaces): EditedText {
    const locate = (): Slot[] => find(texts).map((place, origin) => ({ ...place, origin }));
    const text = EditedText.#createBase(
      null,
      { numChanged: 0, edit: null, position: -1, origin: -1 },
      { texts, locate },
    );
    text.#find = find;
    return text;
  }

  static #createBase(original: EditedText | null, last: LastEdit, source: BaseSource): EditedText {
    return new EditedText(original, last, source, noReplacements, null);
  }

  /**
   * The words that differ from those of the base. Few texts are changed further, so only these keep the list: the
   * others share that of the text that they were made from.
   */
  get replacements(): Replacements {
    return this.#added === null ? this.#replacements : this.#addTo(this.#replacements, this.position, this.#added);
  }

  #keepReplacements(): Replacements {
    this.#replacements = this.replacements;
    this.#added = null;
    return this.#replacements;
  }

  /** One string per field. */
  get texts(): readonly string[] {
    this.#texts ??= this.#render();
    return this.#texts;
  }

  /** The words in order, with their places. */
  get slots(): readonly Slot[] {
    this.#slots ??= this.#locate ? this.#locate() : this.#moveSlots();
    this.#locate = undefined;
    return this.#slots;
  }

  get length(): number {
    return this.base.slots.length;
  }

  get words(): string[] {
    const words = [...this.base.#getBaseWords()];
    const { positions, words: changed } = this.replacements;
    for (const [i, position] of positions.entries()) words[position] = changed[i]!;
    return words;
  }

  getWord(position: number): string {
    if (this.#added !== null && position === this.position) return this.#added;
    const { positions, words } = this.#replacements;
    const index = findIndex(positions, position);
    if (positions[index] === position) return words[index]!;
    const word = this.base.#getBaseWords()[position];
    if (word === undefined) throw this.#createRangeError(position);
    return word;
  }

  /** The index of the original word at a position; -1 for an inserted word. */
  getOrigin(position: number): number {
    return this.#getBaseSlot(position).origin;
  }

  /** The positions, of some in ascending order, at which another version of the text has another word. */
  findDifferences(other: EditedText, positions: readonly number[]): number[] {
    let candidates = positions;
    if (this.base === other.base) {
      // Only replaced words can differ.
      const replaced = new Set([...this.replacements.positions, ...other.replacements.positions]);
      candidates = positions.filter((position) => replaced.has(position));
    }
    return candidates.filter((position) => this.getWord(position) !== other.getWord(position));
  }

  /** Returns true if another text has the same characters. */
  isEqual(other: EditedText): boolean {
    if (this.base === other.base) {
      const [first, second] = [this.replacements, other.replacements];
      if (isEqualList(first.positions, second.positions) && isEqualList(first.words, second.words)) return true;
    }
    return isEqualList(this.texts, other.texts);
  }

  /** Returns true if the word at a position was replaced or inserted. */
  isChanged(position: number): boolean {
    const origin = this.getOrigin(position);
    return origin < 0 || this.original.getWord(origin) !== this.getWord(position);
  }

  /** The position of an original word; -1 if it was deleted. */
  findOrigin(origin: number): number {
    const { slots } = this.base;
    // Without insertions and deletions, the positions are those of the original.
    if (slots[origin]?.origin === origin) return origin;
    return slots.findIndex((slot) => slot.origin === origin);
  }

  /** The text with another string at the place of one word, which may be glued to its neighbors. */
  hideWord(position: number, shown: string): EditedText {
    const { numChanged } = this;
    const last = { numChanged, edit: null, position, origin: this.getOrigin(position) };
    return new EditedText(this.original, last, this.base, this.#keepReplacements(), shown);
  }

  apply(edit: Edit): EditedText {
    switch (edit.kind) {
      case "replace":
        return this.#replace(edit);
      case "insert": {
        const { field, start } = this.#getSlot(edit.position);
        const splice = { field, start, end: start, text: `${edit.word} ` };
        return this.#insert(edit, splice, edit.position, start);
      }
      case "append": {
        const text = this.texts[edit.field]!;
        const gap = text === "" || /\s$/.test(text) ? "" : " ";
        const splice = { field: edit.field, start: text.length, end: text.length, text: gap + edit.word };
        return this.#insert(edit, splice, this.#countUpTo(edit.field), text.length + gap.length);
      }
      case "prepend": {
        const text = this.texts[edit.field]!;
        const gap = text === "" || /^\s/.test(text) ? "" : " ";
        const splice = { field: edit.field, start: 0, end: 0, text: edit.word + gap };
        return this.#insert(edit, splice, this.#countUpTo(edit.field - 1), 0);
      }
      case "delete":
        return this.#delete(edit);
      case "rewrite":
        return this.#rewrite(edit);
      case "merge": {
        const next = this.#replace({ kind: "replace", position: edit.position, word: edit.word });
        const merged = next.#delete({ kind: "delete", position: edit.position + 1 });
        const { texts, slots, numChanged } = merged;
        const last = { numChanged, edit, position: edit.position, origin: next.origin };
        return EditedText.#createBase(this.original, last, { texts, locate: () => [...slots] });
      }
    }
  }

  /** Replaces many words in one pass. The last edit is the replacement of the first of them. */
  replaceAll(words: ReadonlyMap<number, string>): EditedText {
    let [numChanged, isGlued] = [this.numChanged, false];
    const getWord = (position: number): string => words.get(position) ?? this.getWord(position);
    for (const [position, word] of words) {
      if (word === this.getWord(position)) continue;
      numChanged += this.#countChange(position, this.getOrigin(position), word);
      for (const at of [position, position + 1])
        isGlued ||= this.#isGlued(at) && wouldJoin(getWord(at - 1), getWord(at));
    }
    const position = Math.min(...words.keys());
    const edit = { kind: "replace", position, word: words.get(position)! } as const;
    const last = { numChanged, edit, position, origin: this.getOrigin(position) };
    if (isGlued) return EditedText.#createBase(this.original, last, this.#separate(words));
    return new EditedText(this.original, last, this.base, this.#replaceMany(words), null);
  }

  /** Replaces words with a space before each that would be read as one with a word before it. */
  #separate(words: ReadonlyMap<number, string>): BaseSource {
    const parts = this.texts.map((): string[] => []);
    const ends = this.texts.map(() => 0);
    const lengths = this.texts.map(() => 0);
    const last = this.texts.map(() => ({ word: "", isReplaced: false }));
    const slots = this.slots.map((slot, position) => {
      const { field, start, end, origin } = slot;
      const old = this.texts[field]!.slice(start, end);
      const word = words.get(position) ?? old;
      const gap = this.texts[field]!.slice(ends[field], start);
      const isReplaced = word !== old;
      const isGlued = gap === "" && (isReplaced || last[field]!.isReplaced) && wouldJoin(last[field]!.word, word);
      const before = isGlued ? " " : gap;
      last[field] = { word, isReplaced };
      parts[field]!.push(before, word);
      const newStart = lengths[field]! + before.length;
      lengths[field] = newStart + word.length;
      ends[field] = end;
      return { field, start: newStart, end: newStart + word.length, origin };
    });
    const texts = this.texts.map((text, field) => parts[field]!.join("") + text.slice(ends[field]));
    return { texts, locate: () => slots };
  }

  #render(): string[] {
    const { texts, slots } = this.base;
    const { positions, words } = this.replacements;
    const rendered = [...texts];
    let [field, end] = [0, 0];
    let text = "";
    for (const [i, position] of positions.entries()) {
      const slot = slots[position]!;
      if (slot.field !== field) {
        rendered[field] = text + texts[field]!.slice(end);
        [field, end, text] = [slot.field, 0, ""];
      }
      text += texts[field]!.slice(end, slot.start) + words[i]!;
      end = slot.end;
    }
    rendered[field] = text + texts[field]!.slice(end);
    return rendered;
  }

  /** The places of the words of the base after the replacements. */
  #moveSlots(): Slot[] {
    const { positions, words } = this.replacements;
    let [next, field, shift] = [0, 0, 0];
    return this.base.slots.map((slot, position) => {
      if (slot.field !== field) [field, shift] = [slot.field, 0];
      if (positions[next] !== position)
        return shift === 0 ? slot : { ...slot, start: slot.start + shift, end: slot.end + shift };
      const start = slot.start + shift;
      const end = start + words[next++]!.length;
      shift = end - slot.end;
      return { ...slot, start, end };
    });
  }

  #getBaseWords(): readonly string[] {
    const { base } = this;
    base.#baseWords ??= base.slots.map(({ field, start, end }) => base.texts[field]!.slice(start, end));
    return base.#baseWords;
  }

  #rewrite(edit: Extract<Edit, { kind: "rewrite" }>): EditedText {
    const { original } = this;
    const { texts } = edit;
    const places = original.#find(texts);
    const words = places.map(({ field, start, end }) => texts[field]!.slice(start, end));
    const origins = alignWords(original.words, words);
    const kept = origins.filter((origin, i) => origin >= 0 && original.getWord(origin) === words[i]).length;
    const inserted = origins.filter((origin) => origin < 0).length;
    const slots = places.map((place, i) => ({ ...place, origin: origins[i]! }));
    const last = { numChanged: original.length - kept + inserted, edit, position: -1, origin: -1 };
    return EditedText.#createBase(original, last, { texts, locate: () => slots });
  }

  #getSlot(position: number): Slot {
    const slot = this.slots[position];
    if (!slot) throw this.#createRangeError(position);
    return slot;
  }

  #getBaseSlot(position: number): Slot {
    const slot = this.base.slots[position];
    if (!slot) throw this.#createRangeError(position);
    return slot;
  }

  #createRangeError(position: number): RangeError {
    return new RangeError(`position ${position}: the text has ${this.length} words`);
  }

  /** The number of words in the fields up to this one. */
  #countUpTo(field: number): number {
    return this.base.slots.filter((slot) => slot.field <= field).length;
  }

  /** The change of the number of changed words by a replacement: -1, 0 or 1. */
  #countChange(position: number, origin: number, word: string): number {
    if (origin < 0) return 0;
    const old = this.original.getWord(origin);
    return Number(old !== word) - Number(old !== this.getWord(position));
  }

  /** Returns true if nothing is between a word and the one before it. */
  #isGlued(position: number): boolean {
    const { base } = this;
    base.#glued ??= findGlued(base.slots);
    return base.#glued[position] === 1;
  }

  #addTo({ positions, words }: Replacements, position: number, word: string): Replacements {
    const index = findIndex(positions, position);
    const isKnown = positions[index] === position;
    if (word === this.#getBaseWords()[position])
      return isKnown
        ? { positions: positions.toSpliced(index, 1), words: words.toSpliced(index, 1) }
        : { positions, words };
    if (isKnown) return { positions, words: words.with(index, word) };
    return { positions: positions.toSpliced(index, 0, position), words: words.toSpliced(index, 0, word) };
  }

  #replaceMany(added: ReadonlyMap<number, string>): Replacements {
    const baseWords = this.base.#getBaseWords();
    const positions: number[] = [];
    const words: string[] = [];
    const add = (position: number, word: string): void => {
      if (word === baseWords[position]) return;
      positions.push(position);
      words.push(word);
    };
    const old = this.replacements;
    let next = 0;
    const addOld = (end: number): void => {
      for (; next < old.positions.length && old.positions[next]! < end; next++)
        add(old.positions[next]!, old.words[next]!);
    };
    for (const position of [...added.keys()].sort((a, b) => a - b)) {
      addOld(position);
      add(position, added.get(position)!);
      if (old.positions[next] === position) next++;
    }
    addOld(Number.POSITIVE_INFINITY);
    return { positions, words };
  }

  #replace(edit: Extract<Edit, { kind: "replace" }>): EditedText {
    const { position, word } = edit;
    const origin = this.getOrigin(position);
    const last = { numChanged: this.numChanged + this.#countChange(position, origin, word), edit, position, origin };
    const before = this.#isGlued(position) && wouldJoin(this.getWord(position - 1), word);
    const after = this.#isGlued(position + 1) && wouldJoin(word, this.getWord(position + 1));
    if (!before && !after) return new EditedText(this.original, last, this.base, this.#keepReplacements(), word);
    return EditedText.#createBase(this.original, last, this.#separate(new Map([[position, word]])));
  }

  #insert(edit: Edit & { readonly word: string }, splice: Splice, position: number, start: number): EditedText {
    const { field } = splice;
    const slot = { field, start, end: start + edit.word.length, origin: -1 };
    const locate = (): Slot[] => shiftSlots(this.slots, splice).toSpliced(position, 0, slot);
    const last = { numChanged: this.numChanged + 1, edit, position, origin: -1 };
    return EditedText.#createBase(this.original, last, { texts: spliceTexts(this.texts, splice), locate });
  }

  /**
   * The first word of a field is deleted with the space after it, other words with the space before
   * them.
   */
  #delete(edit: Extract<Edit, { kind: "delete" }>): EditedText {
    const { position } = edit;
    const { field, start, end, origin } = this.#getSlot(position);
    const text = this.texts[field]!;
    const isFirst = this.slots[position - 1]?.field !== field;
    const eatsAfter = isFirst && text[end] === " ";
    const eatsBefore = !isFirst && text[start - 1] === " ";
    const splice = { field, start: start - Number(eatsBefore), end: end + Number(eatsAfter), text: "" };
    // Deleting an inserted word undoes the insertion.
    const numChanged = this.numChanged + (origin < 0 ? -1 : Number(!this.isChanged(position)));
    const locate = (): Slot[] => shiftSlots(this.slots, splice).toSpliced(position, 1);
    const last = { numChanged, edit, position: Math.min(position, this.length - 2), origin };
    return EditedText.#createBase(this.original, last, { texts: spliceTexts(this.texts, splice), locate });
  }
}

/** The index of the first number of a sorted list that is at least this one. */
function findIndex(sorted: readonly number[], value: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function isEqualList<T>(first: readonly T[], second: readonly T[]): boolean {
  return first.length === second.length && first.every((value, i) => value === second[i]);
}

function findGlued(slots: readonly Slot[]): Uint8Array {
  return Uint8Array.from(slots, ({ field, start }, position) => {
    const previous = slots[position - 1];
    return Number(previous?.field === field && previous.end === start);
  });
}

/**
 * Returns true if two words without a space would be read as one, as "did" and "not" in place of "didn't".
 * The ending n't is always a word of its own.
 */
function wouldJoin(left: string, right: string): boolean {
  return /[\p{L}\p{N}]$/u.test(left) && /^(?!n['’]t$)[\p{L}\p{N}]/iu.test(right);
}

function spliceTexts(texts: readonly string[], { field, start, end, text }: Splice): string[] {
  const before = texts[field]!;
  return texts.with(field, before.slice(0, start) + text + before.slice(end));
}

/** Moves the words behind a splice. */
function shiftSlots(slots: readonly Slot[], { field, start, end, text }: Splice): Slot[] {
  const shift = text.length - (end - start);
  return slots.map((slot) =>
    slot.field === field && slot.start >= end ? { ...slot, start: slot.start + shift, end: slot.end + shift } : slot,
  );
}
