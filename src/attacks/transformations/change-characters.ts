import type { Rng } from "../../base/rng.js";
import type { Transformation } from "../protocol.js";
import { homoglyphs, keyboardNeighbors } from "./character-tables.js";
import { replaceWords } from "./replace-words.js";

/** A change of the characters of a word. */
export type CharacterOperator = "swap" | "delete" | "insert" | "substitute" | "keyboard" | "homoglyph" | "space";

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

interface CharacterOptions {
  /** One random candidate, or all. Random letters are drawn once per position. */
  readonly candidates: "one" | "all";
  /** The first and the last character stay. */
  readonly innerOnly: boolean;
}

/** Changes one or two characters of a word. */
export function changeCharacters(operator: CharacterOperator, options: CharacterOptions): Transformation {
  return {
    name: `character ${operator}${options.innerOnly ? " inside a word" : ""}, ${options.candidates} per word`,
    kind: "swap",
    apply: (text, positions, rng) => replaceWords(text, positions, (word) => changeWord(word, operator, options, rng)),
  };
}

export function changeWord(
  word: string,
  operator: CharacterOperator,
  { candidates, innerOnly }: CharacterOptions,
  rng: Rng,
): string[] {
  const characters = [...word];
  const edits = listEdits(characters, operator, innerOnly, rng);
  if (edits.length === 0) return [];
  const chosen = candidates === "one" ? [edits[rng.integer(edits.length)]!] : edits;
  return chosen.map((edit) => edit());
}

/** Letters are drawn only for the edits that are used. */
function listEdits(characters: string[], operator: CharacterOperator, innerOnly: boolean, rng: Rng): (() => string)[] {
  const length = characters.length;
  const put = (index: number, count: number, ...inserted: string[]): string =>
    characters.toSpliced(index, count, ...inserted).join("");
  const drawLetter = (): string => letters[rng.integer(letters.length)]!;
  const range = (start: number, end: number): number[] =>
    Array.from({ length: Math.max(0, end - start) }, (_, i) => start + i);
  const inner = Number(innerOnly);
  const hasEnough = (outer: number, inside: number): boolean => length >= (innerOnly ? inside : outer);
  switch (operator) {
    case "swap":
      if (!hasEnough(2, 4)) return [];
      return range(inner, length - 1 - inner).map((i) => () => put(i, 2, characters[i + 1]!, characters[i]!));
    case "delete":
      if (!hasEnough(2, 3)) return [];
      return range(inner, length - inner).map((i) => () => put(i, 1));
    case "insert":
      if (!hasEnough(2, 3)) return [];
      return range(inner, length - inner).map((i) => () => put(i, 0, drawLetter()));
    case "substitute":
      if (!hasEnough(2, 3)) return [];
      return range(inner, length - inner).map((i) => () => put(i, 1, drawLetter()));
    case "keyboard":
      if (!hasEnough(2, 4)) return [];
      return range(inner, length - inner).flatMap((i) =>
        getKeyboardNeighbors(characters[i]!).map((other) => () => put(i, 1, other)),
      );
    case "homoglyph":
      return range(inner, length - inner).flatMap((i) => {
        const other = homoglyphs.get(characters[i]!);
        return other === undefined ? [] : [() => put(i, 1, other)];
      });
    case "space":
      if (!hasEnough(2, 3)) return [];
      return range(1, length - inner).map((i) => () => put(i, 0, " "));
  }
}

function getKeyboardNeighbors(character: string): string[] {
  const lower = character.toLowerCase();
  const neighbors = [...(keyboardNeighbors.get(lower) ?? "")];
  return character === lower ? neighbors : neighbors.map((other) => other.toUpperCase());
}
