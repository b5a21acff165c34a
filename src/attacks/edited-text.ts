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

type Replacement = readonly [position: number, word: string];

const noReplacements: Replacements = { positions: [], words: [] };

/** The characters and the words of a base text. */
interface BaseSource {
  readonly texts: readonly string[];
  locate(): readonly Slot[];
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
  #locate: (() => readonly Slot[]) | undefined;
  #baseWords: readonly string[] | undefined;
  /** For each word of a base text: 1 if no character is between it and the word before. */
  #glued: Uint8Array | undefined;
  #findWords: WordFinder = findWordPlaces;
  /** The similarity to the reference text, if a constraint has computed it. */
  similarity: number | undefined;
  /** The text with other words at some positions: the original one, or the last one whose words were moved. */
  readonly base: EditedText;
  readonly original: EditedText;
  /** The words that differ from those of the base. */
  readonly replacements: Replacements;
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
    /** A base text, or the characters and words of a new one. */
    source: BaseSource | EditedText,
    { numChanged, edit, position, origin }: LastEdit,
    replacements = noReplacements,
  ) {
    this.original = original ?? this;
    this.numChanged = numChanged;
    this.edit = edit;
    this.position = position;
    this.origin = origin;
    this.replacements = replacements;
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
    const text = new EditedText(null, { texts, locate }, { numChanged: 0, edit: null, position: -1, origin: -1 });
    text.#findWords = find;
    return text;
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
    const { positions, words } = this.replacements;
    const index = positions.indexOf(position);
    return index >= 0 ? words[index]! : this.#find(this.base.#getBaseWords(), position);
  }

  /** The index of the original word at a position; -1 for an inserted word. */
  getOrigin(position: number): number {
    return this.#find(this.base.slots, position).origin;
  }

  /** The positions, of some in ascending order, at which another version of the text has another word. */
  findDifferences(other: EditedText, positions: readonly number[]): number[] {
    // Of versions of one text, only replaced words can differ.
    const replaced = new Set([...this.replacements.positions, ...other.replacements.positions]);
    const candidates = this.base === other.base ? positions.filter((position) => replaced.has(position)) : positions;
    return candidates.filter((position) => this.getWord(position) !== other.getWord(position));
  }

  isEqual(other: EditedText): boolean {
    const [first, second] = [this.replacements, other.replacements];
    const isSame = isEqualList(first.positions, second.positions) && isEqualList(first.words, second.words);
    return (isSame && this.base === other.base) || isEqualList(this.texts, other.texts);
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
    const last = { numChanged: this.numChanged, edit: null, position, origin: this.getOrigin(position) };
    return new EditedText(this.original, this.base, last, this.#addReplacements([[position, shown]]));
  }

  apply(edit: Edit): EditedText {
    switch (edit.kind) {
      case "replace":
        return this.#replace([[edit.position, edit.word]], edit);
      case "insert": {
        const { field, start } = this.#find(this.slots, edit.position);
        return this.#insert(edit, edit.position, { field, start, end: start, text: `${edit.word} ` }, start);
      }
      case "append": {
        const text = this.texts[edit.field]!;
        const gap = text === "" || /\s$/.test(text) ? "" : " ";
        const splice = { field: edit.field, start: text.length, end: text.length, text: gap + edit.word };
        return this.#insert(edit, this.#countUpTo(edit.field), splice, text.length + gap.length);
      }
      case "prepend": {
        const text = this.texts[edit.field]!;
        const gap = text === "" || /^\s/.test(text) ? "" : " ";
        const splice = { field: edit.field, start: 0, end: 0, text: edit.word + gap };
        return this.#insert(edit, this.#countUpTo(edit.field - 1), splice, 0);
      }
      case "delete":
        return this.#delete(edit, edit.position);
      case "rewrite":
        return this.#rewrite(edit);
      case "merge": {
        const { position, word } = edit;
        const replaced = this.apply({ kind: "replace", position, word });
        const { texts, slots, numChanged } = replaced.apply({ kind: "delete", position: position + 1 });
        const last = { numChanged, edit, position, origin: replaced.origin };
        return new EditedText(this.original, { texts, locate: () => slots }, last);
      }
    }
  }

  /** Replaces many words in one pass. The last edit is the replacement of the first of them. */
  replaceAll(words: ReadonlyMap<number, string>): EditedText {
    const sorted = [...words].sort(([a], [b]) => a - b);
    const [position, word] = sorted[0]!;
    return this.#replace(sorted, { kind: "replace", position, word });
  }

  /** Replaces words, in the order of their positions. */
  #replace(words: readonly Replacement[], edit: Extract<Edit, { kind: "replace" }>): EditedText {
    let { numChanged } = this;
    const changed = words.filter(([position, word]) => word !== this.getWord(position));
    for (const [position, word] of changed) {
      const origin = this.getOrigin(position);
      if (origin < 0) continue;
      const old = this.original.getWord(origin);
      numChanged += Number(old !== word) - Number(old !== this.getWord(position));
    }
    const last = { numChanged, edit, position: edit.position, origin: this.getOrigin(edit.position) };
    const replaced = new EditedText(this.original, this.base, last, this.#addReplacements(changed));
    const joined = changed.flatMap(([position]) => replaced.#findJoined(position));
    return joined.length === 0 ? replaced : new EditedText(this.original, replaced.#separate(new Set(joined)), last);
  }

  /** Puts a space before words that would be read as one with the word before them. */
  #separate(positions: ReadonlySet<number>): BaseSource {
    let { texts, slots } = this;
    for (const position of positions) {
      const { field, start } = slots[position]!;
      const splice = { field, start, end: start, text: " " };
      texts = spliceTexts(texts, splice);
      slots = shiftSlots(slots, splice);
    }
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
    const places = original.#findWords(texts);
    const words = places.map(({ field, start, end }) => texts[field]!.slice(start, end));
    const origins = alignWords(original.words, words);
    const kept = origins.filter((origin, i) => origin >= 0 && original.getWord(origin) === words[i]).length;
    const inserted = origins.filter((origin) => origin < 0).length;
    const slots = places.map((place, i) => ({ ...place, origin: origins[i]! }));
    const last = { numChanged: original.length - kept + inserted, edit, position: -1, origin: -1 };
    return new EditedText(original, { texts, locate: () => slots }, last);
  }

  #find<T>(list: readonly T[], position: number): T {
    const found = list[position];
    if (found === undefined) throw new RangeError(`position ${position}: the text has ${this.length} words`);
    return found;
  }

  /** The number of words in the fields up to this one. */
  #countUpTo(field: number): number {
    return this.base.slots.filter((slot) => slot.field <= field).length;
  }

  /**
   * Of a word and the next one, those that would be read as one with the word before them, because no character is
   * between: "did" and "not" in place of "didn't". The ending n't is always a word of its own.
   */
  #findJoined(position: number): number[] {
    const { base } = this;
    base.#glued ??= findGlued(base.slots);
    const joined: number[] = [];
    for (let at = position; at <= position + 1; at++) {
      const isJoined =
        base.#glued[at] === 1 &&
        /[\p{L}\p{N}]$/u.test(this.getWord(at - 1)) &&
        /^(?!n['’]t$)[\p{L}\p{N}]/iu.test(this.getWord(at));
      if (isJoined) joined.push(at);
    }
    return joined;
  }

  #addReplacements(added: readonly Replacement[]): Replacements {
    const baseWords = this.#getBaseWords();
    let { positions, words } = this.replacements;
    for (const [position, word] of added) {
      const index = findIndex(positions, position);
      const isNew = word !== baseWords[position];
      const numKnown = Number(positions[index] === position);
      positions = isNew ? positions.toSpliced(index, numKnown, position) : positions.toSpliced(index, numKnown);
      words = isNew ? words.toSpliced(index, numKnown, word) : words.toSpliced(index, numKnown);
    }
    return { positions, words };
  }

  #insert(edit: Edit & { readonly word: string }, position: number, splice: Splice, start: number): EditedText {
    const slot = { field: splice.field, start, end: start + edit.word.length, origin: -1 };
    const locate = (): Slot[] => shiftSlots(this.slots, splice).toSpliced(position, 0, slot);
    const last = { numChanged: this.numChanged + 1, edit, position, origin: -1 };
    return new EditedText(this.original, { texts: spliceTexts(this.texts, splice), locate }, last);
  }

  /**
   * The first word of a field is deleted with the space after it, other words with the space before
   * them.
   */
  #delete(edit: Edit, position: number): EditedText {
    const { field, start, end, origin } = this.#find(this.slots, position);
    const text = this.texts[field]!;
    const isFirst = this.slots[position - 1]?.field !== field;
    const eatsAfter = isFirst && text[end] === " ";
    const eatsBefore = !isFirst && text[start - 1] === " ";
    const splice = { field, start: start - Number(eatsBefore), end: end + Number(eatsAfter), text: "" };
    // Deleting an inserted word undoes the insertion.
    const numChanged = this.numChanged + (origin < 0 ? -1 : Number(!this.isChanged(position)));
    const locate = (): Slot[] => shiftSlots(this.slots, splice).toSpliced(position, 1);
    const last = { numChanged, edit, position: Math.min(position, this.length - 2), origin };
    return new EditedText(this.original, { texts: spliceTexts(this.texts, splice), locate }, last);
  }
}

/** The index of the first number of a sorted list that is at least this one. */
function findIndex(sorted: readonly number[], value: number): number {
  const index = sorted.findIndex((each) => each >= value);
  return index < 0 ? sorted.length : index;
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
