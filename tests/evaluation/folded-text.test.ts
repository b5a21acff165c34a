import { expect, test } from "vitest";
import { foldText, splitRead } from "../../src/evaluation/folded-text.js";
import { splitIntoPieces } from "../../src/text/text-pieces.js";

/** Words w0 … w(count-1), with these ones changed. */
function fold(count: number, changed: readonly number[]): string {
  const words = Array.from({ length: count }, (_, i) => `w${i}`);
  const [pieces] = splitIntoPieces([words.join(" ")], words, new Uint8Array(count));
  return foldText(
    pieces!,
    ({ word }) => word !== null && changed.includes(word),
    ({ word, text }) => (word !== null && changed.includes(word) ? `[${text}]` : text),
  ).join("");
}

test("words that are far from every change are counted, all others are as in the text", () => {
  expect(fold(20, [])).toBe(
    Array.from({ length: 20 }, (_, i) => `w${i}`)
      .join(" ")
      .replace(/ w12.*/, " … 8 words …"),
  );
  const folded = fold(100, [50]);
  expect(folded).toMatch(/^w0 w1 .* w11 … 26 words … w38 .* w49 \[w50\] w51 .* w62 … 37 words …$/);
  // Nothing is hidden where the note would be as long as the words.
  expect(fold(40, [24])).toBe(Array.from({ length: 40 }, (_, i) => (i === 24 ? "[w24]" : `w${i}`)).join(" "));
});

test("a text is split where the model stops reading", () => {
  const [pieces] = splitIntoPieces(["one two three"], ["one", "two", "three"], new Uint8Array(3));
  const texts = (numRead: number): string[] =>
    Object.values(splitRead(pieces!, numRead)).map((part) => part.map(({ text }) => text).join(""));
  expect(texts(7)).toEqual(["one two", " three"]);
  expect(texts(Number.POSITIVE_INFINITY)).toEqual(["one two three", ""]);
});
