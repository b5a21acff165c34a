import { expect, test } from "vitest";
import type { AttackExample } from "../../src/attacks/attack-space.js";
import { keepContextualSubstitutes, resolveContextSimilarity } from "../../src/attacks/context-substitutes.js";
import type { SentenceEncoder } from "../../src/attacks/resources.js";

/** An encoder that knows only words: each word is one direction, and "sailor" is near "tar". */
function createEncoder(calls: string[]): SentenceEncoder {
  return {
    name: "scripted",
    kind: "encoder",
    hash: "scripted",
    async compute(texts) {
      calls.push(...texts);
      return texts.map((text) => {
        if (text.includes("seaman")) return Float32Array.of(0.6, 0.8);
        if (text.includes("archive")) return Float32Array.of(0.9, Math.sqrt(0.19));
        return text.includes("pack") ? Float32Array.of(0.95, Math.sqrt(1 - 0.95 ** 2)) : Float32Array.of(1, 0);
      });
    },
  };
}

const words = "first unpack it with tar xfvz and then read the text file".split(" ");
const example: AttackExample = {
  ...{ id: "1", label: 0, texts: [words.join(" ")], words, fields: words.map(() => 0), maxChanged: 3 },
  replacements: words.map((word) => (word === "tar" ? ["tar", "seaman", "archive", "pack"] : [word])),
};

test("substitutes of another sense are removed, and the others ranked by their fit", async () => {
  const calls: string[] = [];
  const [ranked] = await keepContextualSubstitutes([example], createEncoder(calls), 0.85);
  expect(ranked!.replacements[4]).toEqual(["tar", "pack", "archive"]);
  expect(ranked!.replacements[0]).toEqual(["first"]);
  // The encoder reads five words on each side, and only of words that have substitutes.
  expect(calls).toHaveLength(4);
  expect(calls[0]).toBe("first unpack it with tar xfvz and then read the");
  expect(calls[1]).toBe("first unpack it with seaman xfvz and then read the");
});

test("the context ends with the field, and cached similarities are not computed again", async () => {
  const fields = words.map((_, i) => Number(i >= 4));
  const calls: string[] = [];
  const stored = new Map<string, readonly number[]>();
  const cache = {
    get: (name: string) => stored.get(name),
    add: (name: string, values: readonly number[]) => void stored.set(name, values),
    close: () => undefined,
  };
  const run = () => keepContextualSubstitutes([{ ...example, fields }], createEncoder(calls), 0.85, cache);
  const first = await run();
  expect(calls[0]).toBe("tar xfvz and then read the");
  expect(await run()).toEqual(first);
  expect(calls).toHaveLength(4);
});

test("only WordNet has a default", () => {
  expect(resolveContextSimilarity(null, "wordnet")).toBe(0.85);
  expect(resolveContextSimilarity(null, "wordnet, in-vocabulary words only")).toBe(0.85);
  expect(resolveContextSimilarity(null, "wordnet.json")).toBeNull();
  expect(resolveContextSimilarity(0.5, "table.json")).toBe(0.5);
  expect(resolveContextSimilarity(-1, "wordnet")).toBeNull();
});
