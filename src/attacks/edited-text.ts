import { findWordPlaces, type WordFinder, type WordPlace, type WordRange } from "../text/find-words.js";

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

/**
 * A text after some edits. It never changes: `apply` returns a new text. A new text is two slices
 * of strings; its words are located only when they are needed, which for most candidates is never.
 */
export class EditedText {
  #slots: readonly Slot[] | undefined;
  #locate: (() => Slot[]) | undefined;
  /** The word finder of an original text. */
  #find: WordFinder = findWordPlaces;
  /** The similarity to the reference text, if a constraint has computed it. */
  similarity: number | undefined;

  private constructor(
    /** One string per field. */
    readonly texts: readonly string[],
    original: EditedText | null,
    locate: () => Slot[],
    /** Words that were replaced, inserted or deleted. */
    readonly numChanged: number,
    /** The last edit; null for the original text. */
    readonly edit: Edit | null,
    /** Position of the word that the last edit changed; -1 for the original text. */
    readonly position: number,
    /** Index of the original word that the last edit changed; -1 for an insertion. */
    readonly origin: number,
  ) {
    this.original = original ?? this;
    this.#locate = locate;
  }

  readonly original: EditedText;

  /** Finds the words of the original texts. */
  static create(texts: readonly string[], find: WordFinder = findWordPlaces): EditedText {
    const locate = (): Slot[] => find(texts).map((place, origin) => ({ ...place, origin }));
    const text = new EditedText(texts, null, locate, 0, null, -1, -1);
    text.#find = find;
    return text;
  }

  /** The words in order, with their places. */
  get slots(): readonly Slot[] {
    this.#slots ??= this.#locate!();
    this.#locate = undefined;
    return this.#slots;
  }

  get length(): number {
    return this.slots.length;
  }

  get words(): string[] {
    return this.slots.map(({ field, start, end }) => this.texts[field]!.slice(start, end));
  }

  getWord(position: number): string {
    const { field, start, end } = this.slots[position]!;
    return this.texts[field]!.slice(start, end);
  }

  /** Returns true if the word at a position was replaced or inserted. */
  isChanged(position: number): boolean {
    const { origin } = this.slots[position]!;
    return origin < 0 || this.original.getWord(origin) !== this.getWord(position);
  }

  /** The position of an original word; -1 if it was deleted. */
  findOrigin(origin: number): number {
    // Without insertions and deletions, the positions are those of the original.
    if (this.slots[origin]?.origin === origin) return origin;
    return this.slots.findIndex((slot) => slot.origin === origin);
  }

  /** The texts with another string at the place of one word. */
  render(position: number, word: string): string[] {
    const { field, start, end } = this.slots[position]!;
    return spliceTexts(this.texts, { field, start, end, text: word });
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
        const locate = (): Slot[] => [...merged.slots];
        const { texts, numChanged } = merged;
        return new EditedText(texts, this.original, locate, numChanged, edit, edit.position, next.origin);
      }
    }
  }

  /** Replaces many words in one pass. The last edit is the replacement of the first of them. */
  replaceAll(words: ReadonlyMap<number, string>): EditedText {
    const parts = this.texts.map((): string[] => []);
    const ends = this.texts.map(() => 0);
    let numChanged = this.numChanged;
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
      if (word !== old) {
        const isChanged = origin < 0 || this.original.getWord(origin) !== word;
        numChanged += Number(isChanged) - Number(this.isChanged(position));
      }
      parts[field]!.push(before, word);
      const newStart = lengths[field]! + before.length;
      lengths[field] = newStart + word.length;
      ends[field] = end;
      return { field, start: newStart, end: newStart + word.length, origin };
    });
    const texts = this.texts.map((text, field) => parts[field]!.join("") + text.slice(ends[field]));
    const position = Math.min(...words.keys());
    const edit = { kind: "replace", position, word: words.get(position)! } as const;
    return new EditedText(texts, this.original, () => slots, numChanged, edit, position, slots[position]!.origin);
  }

  #rewrite(edit: Extract<Edit, { kind: "rewrite" }>): EditedText {
    const { original } = this;
    const places = original.#find(edit.texts);
    const words = places.map(({ field, start, end }) => edit.texts[field]!.slice(start, end));
    const origins = alignWords(original.words, words);
    const kept = origins.filter((origin, i) => origin >= 0 && original.getWord(origin) === words[i]).length;
    const inserted = origins.filter((origin) => origin < 0).length;
    const slots = places.map((place, i) => ({ ...place, origin: origins[i]! }));
    const numChanged = original.length - kept + inserted;
    return new EditedText(edit.texts, original, () => slots, numChanged, edit, -1, -1);
  }

  #getSlot(position: number): Slot {
    const slot = this.slots[position];
    if (!slot) throw new RangeError(`position ${position}: the text has ${this.length} words`);
    return slot;
  }

  /** The number of words in the fields up to this one. */
  #countUpTo(field: number): number {
    return this.slots.filter((slot) => slot.field <= field).length;
  }

  #replace(edit: Extract<Edit, { kind: "replace" }>): EditedText {
    const { position, word } = edit;
    const { field, start, end, origin } = this.#getSlot(position);
    const [previous, next] = [this.slots[position - 1], this.slots[position + 1]];
    const isGluedBefore = previous?.field === field && previous.end === start;
    const isGluedAfter = next?.field === field && next.start === end;
    const before = isGluedBefore && wouldJoin(this.getWord(position - 1), word) ? " " : "";
    const after = isGluedAfter && wouldJoin(word, this.getWord(position + 1)) ? " " : "";
    const splice = { field, start, end, text: before + word + after };
    const isChanged = origin < 0 || this.original.getWord(origin) !== word;
    const numChanged = this.numChanged + Number(isChanged) - Number(this.isChanged(position));
    const newStart = start + before.length;
    const locate = (): Slot[] =>
      shiftSlots(this.slots, splice).with(position, { field, start: newStart, end: newStart + word.length, origin });
    return new EditedText(spliceTexts(this.texts, splice), this.original, locate, numChanged, edit, position, origin);
  }

  #insert(edit: Edit & { readonly word: string }, splice: Splice, position: number, start: number): EditedText {
    const { field } = splice;
    const slot = { field, start, end: start + edit.word.length, origin: -1 };
    const locate = (): Slot[] => shiftSlots(this.slots, splice).toSpliced(position, 0, slot);
    const texts = spliceTexts(this.texts, splice);
    return new EditedText(texts, this.original, locate, this.numChanged + 1, edit, position, -1);
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
    const difference = origin < 0 ? -1 : Number(!this.isChanged(position));
    const locate = (): Slot[] => shiftSlots(this.slots, splice).toSpliced(position, 1);
    const numChanged = this.numChanged + difference;
    const texts = spliceTexts(this.texts, splice);
    const nextPosition = Math.min(position, this.length - 2);
    return new EditedText(texts, this.original, locate, numChanged, edit, nextPosition, origin);
  }
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

/**
 * A word that differs between the original and the final text: replaced, inserted or deleted. A
 * merge of two words is a replacement and a deletion.
 */
export interface WordChange {
  /**
   * Index of the original word; of an inserted word, the index of the original word after it.
   */
  readonly position: number;
  /** The original word; empty for an insertion. */
  readonly from: string;
  /** The new word; empty for a deletion. */
  readonly to: string;
}

/** Lists the changes from the original text, in its order. */
export function listChanges(text: EditedText): WordChange[] {
  return listWordChanges(
    text.original.words,
    text.words,
    text.slots.map(({ origin }) => origin),
  );
}

/** Lists the changes from original words to final ones. `origins` has the index of the original word of each. */
export function listWordChanges(
  words: readonly string[],
  finalWords: readonly string[],
  origins: readonly number[],
): WordChange[] {
  const changes: WordChange[] = [];
  let next = 0;
  for (const [position, origin] of origins.entries()) {
    const to = finalWords[position]!;
    if (origin < 0) {
      changes.push({ position: next, from: "", to });
      continue;
    }
    for (; next < origin; next++) changes.push({ position: next, from: words[next]!, to: "" });
    if (words[origin] !== to) changes.push({ position: origin, from: words[origin]!, to });
    next = origin + 1;
  }
  for (; next < words.length; next++) changes.push({ position: next, from: words[next]!, to: "" });
  return changes;
}

/**
 * The index of the original word of each word; -1 for an inserted word. Equal words are aligned by
 * a longest common subsequence, and the words between them in their order.
 */
function alignWords(original: readonly string[], words: readonly string[]): number[] {
  const width = words.length + 1;
  const lengths = new Uint32Array((original.length + 1) * width);
  for (let i = original.length - 1; i >= 0; i--)
    for (let j = words.length - 1; j >= 0; j--)
      lengths[i * width + j] =
        original[i] === words[j]
          ? lengths[(i + 1) * width + j + 1]! + 1
          : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
  const origins: number[] = [];
  let [i, j] = [0, 0];
  while (j < words.length) {
    const isEqual = i < original.length && original[i] === words[j];
    const here = lengths[i * width + j]!;
    // Without a loss of equal words later, both words are skipped together: a replacement.
    const isReplaced = i < original.length && !isEqual && lengths[(i + 1) * width + j + 1]! === here;
    if (isEqual || isReplaced) {
      origins.push(i++);
      j++;
    } else if (i < original.length && lengths[(i + 1) * width + j]! === here) i++;
    else {
      origins.push(-1);
      j++;
    }
  }
  return origins;
}
