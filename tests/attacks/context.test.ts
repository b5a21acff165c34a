import { expect, test } from "vitest";
import { fitContext, resolveContextSimilarity } from "../../src/attacks/constraints/context.js";
import { EditedText } from "../../src/attacks/edited-text.js";
import { computeTogether } from "../../src/attacks/requests.js";
import type { ContextFilter, SentenceEncoder } from "../../src/attacks/resources.js";
import { expandText } from "../../src/attacks/run-recipe.js";
import { swapFromTable } from "../../src/attacks/transformations/swap-from-table.js";
import { Rng } from "../../src/base/rng.js";
import { createTable } from "./scripted.js";

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

const table = createTable([["tar", "seaman", "archive", "pack"]]);

/** The substitutes of all words that fit, in their order. */
async function expand(filter: ContextFilter, text: EditedText): Promise<string[]> {
  const parts = { transformations: [swapFromTable(table)], constraints: fitContext(filter) };
  const [found] = await computeTogether([expandText(parts, text, [...text.slots.keys()], new Rng(0))]);
  return found!.map((candidate) => candidate.getWord(candidate.position));
}

test("substitutes of another sense are removed, and the others ranked by their fit", async () => {
  const calls: string[] = [];
  const text = EditedText.create(["first unpack it with tar xfvz and then read the text file"]);
  const filter = { encoder: createEncoder(calls), minSimilarity: 0.85 };
  expect(await expand(filter, text)).toEqual(["pack", "archive"]);
  // The encoder reads five words on each side, and only of words that have substitutes.
  expect(calls).toHaveLength(4);
  expect(calls[0]).toBe("first unpack it with tar xfvz and then read the");
  expect(calls[1]).toBe("first unpack it with seaman xfvz and then read the");
  // A changed word may become the original one again.
  expect(await expand(filter, text.apply({ kind: "replace", position: 4, word: "pack" }))).toEqual(["tar", "archive"]);
});

test("the context ends with the field, and cached similarities are not computed again", async () => {
  const calls: string[] = [];
  const stored = new Map<string, readonly number[]>();
  const cache = {
    get: (name: string) => stored.get(name),
    add: (name: string, values: readonly number[]) => void stored.set(name, values),
    close: () => undefined,
  };
  const run = () =>
    expand(
      { encoder: createEncoder(calls), minSimilarity: 0.85, cache },
      EditedText.create(["first unpack it with", "tar xfvz and then read the text file"]),
    );
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
