import type { EditedText } from "../edited-text.js";
import type { Transformation } from "../protocol.js";
import type { VectorEncoding } from "../searches/differential-evolution.js";
import { confusables } from "./character-tables.js";

/** The four kinds of imperceptible changes of Boucher et al. 2021. */
export type BadCharacterKind = "homoglyphs" | "invisible" | "deletions" | "reorderings";

const invisibleCharacters = ["\u200b", "\u200c", "\u200d"];
const [firstPrintable, lastPrintable] = [0x21, 0x7e];
const backspace = "\b";

/** Displays `first` before `second`, although they are stored in the other order. */
function swapWithControls(first: string, second: string): string {
  return `\u202d\u2066\u202e\u2066${second}\u2069\u2066${first}\u2069\u202c\u2069\u202c`;
}

interface Place {
  readonly position: number;
  readonly index: number;
}

/**
 * Encodes `count` changes of the characters of words as a vector: two numbers per change, or one
 * for homoglyphs and reorderings.
 */
export function encodeBadCharacters(kind: BadCharacterKind, count: number): VectorEncoding {
  const known = new WeakMap<readonly number[], readonly Place[]>();
  const listPlaces = (text: EditedText, positions: readonly number[]): readonly Place[] => {
    const found = known.get(positions) ?? findPlaces(text, kind, positions);
    known.set(positions, found);
    return found;
  };
  const choices = { homoglyphs: 0, reorderings: 0, invisible: invisibleCharacters.length, deletions: 94 }[kind];
  const perChange = choices === 0 ? 1 : 2;
  return {
    getLimits(text, positions) {
      const places = listPlaces(text, positions).length;
      return Array.from({ length: perChange * count }, (_, i) => (i % perChange === 0 ? places : choices));
    },
    decode(text, positions, vector) {
      const places = listPlaces(text, positions);
      const changes = new Map<number, Map<number, number>>();
      for (let i = 0; i < count; i++) {
        const { position, index } = places[Math.min(places.length - 1, Math.floor(vector[i * perChange]!))]!;
        const choice = choices === 0 ? 0 : Math.min(choices - 1, Math.floor(vector[i * perChange + 1]!));
        changes.set(position, (changes.get(position) ?? new Map<number, number>()).set(index, choice));
      }
      const words = [...changes].map(
        ([position, byIndex]) => [position, changeWord(text.getWord(position), kind, byIndex)] as const,
      );
      return text.replaceAll(new Map(words));
    },
  };
}

function findPlaces(text: EditedText, kind: BadCharacterKind, positions: readonly number[]): Place[] {
  return positions.flatMap((position) => {
    const characters = [...text.getWord(position)];
    const indices = [...characters.keys()].filter((i) => {
      if (kind === "homoglyphs") return confusables.has(characters[i]!);
      return kind !== "reorderings" || i + 1 < characters.length;
    });
    return indices.map((index) => ({ position, index }));
  });
}

function changeWord(word: string, kind: BadCharacterKind, changes: ReadonlyMap<number, number>): string {
  const characters = [...word];
  const parts: string[] = [];
  for (let i = 0; i < characters.length; i++) {
    const choice = changes.get(i);
    const character = characters[i]!;
    if (choice === undefined) parts.push(character);
    else if (kind === "homoglyphs") parts.push(confusables.get(character)!);
    else if (kind === "invisible") parts.push(invisibleCharacters[choice]!, character);
    else if (kind === "deletions") {
      const printed = Math.min(lastPrintable, firstPrintable + choice);
      parts.push(String.fromCharCode(printed), backspace, character);
    } else parts.push(swapWithControls(character, characters[++i]!));
  }
  return parts.join("");
}

/** One random change, for augmentation. */
export function changeBadCharacter(encoding: VectorEncoding, kind: BadCharacterKind): Transformation {
  return {
    name: `imperceptible characters: ${kind}`,
    kind: "swap",
    apply(text, positions, rng) {
      const limits = encoding.getLimits(text, positions);
      if (limits.some((limit) => limit <= 0)) return [];
      return [
        encoding.decode(
          text,
          positions,
          limits.map((limit) => limit * rng.next()),
        ),
      ];
    },
  };
}
