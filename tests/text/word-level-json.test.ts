import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AutoTokenizer, env } from "@huggingface/transformers";
import { Tokenizer as OfficialTokenizer } from "tokenizers";
import { expect, test } from "vitest";
import { createTokenizerFiles } from "../../src/models/checkpoint/save-tokenizer.js";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { temporaryFolder } from "../temporary.js";

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
