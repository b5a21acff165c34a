import { describe, expect, test } from "vitest";
import { attackNames } from "../../src/attacks/load-attack.js";
import { SearchPool } from "../../src/attacks/pool.js";
import type { AttackResult } from "../../src/attacks/result.js";
import type { AbleVictim } from "../../src/attacks/victim.js";
import { splitCalls } from "../../src/models/inference/predict-in-calls.js";
import type { PreparedText } from "../../src/models/inference/predictor.js";
import { createScore } from "../../src/models/inference/score.js";
import { chooseExtent } from "../extent.js";
import { collect, createExample, createTableAttack, hashed, scriptedVictim } from "./scripted.js";

const examples = Array.from({ length: chooseExtent(2, 12) }, (_, i) =>
  createExample(
    String(i),
    ["the", "good", "old", "film", "was", "warm"]
      .map((word) => `${word}${"abcdefghijkl"[i]}`)
      .map((word) => [word, ...[1, 2, 3].map((k) => `${word}${k}`)]),
  ),
);
/** A large part of each logit depends on the words, so that searches have something to follow. */
const getLogits = (text: string): number[] => {
  const words = text.split(" ").map((word) => hashed(2, "word")(word)[0]! - 0.45);
  const sum = words.reduce((total, value) => total + value, 0);
  return [3 * sum + hashed(2, "text")(text)[0]!, 0.2];
};

/** A victim whose logits are multiplied by a number, which does not change its predictions. */
function createScaled(scale: number): AbleVictim {
  return splitCalls({
    ...scriptedVictim(2, () => [0.5, 0.5], 64),
    returnsLogits: true,
    predict: async (items: readonly PreparedText[]) =>
      items.map(({ content }) => {
        const logits = Float32Array.from(getLogits(String(content))).map((logit) => scale * logit);
        return createScore(logits, true);
      }),
  });
}

async function run(name: string, scale: number): Promise<Pick<AttackResult, "outcome" | "finalTexts" | "queries">[]> {
  const attack = await createTableAttack(name, examples);
  const results = await collect(new SearchPool(createScaled(scale)).run(examples, attack, { seed: 0 }));
  return results.map(({ outcome, finalTexts, queries }) => ({ outcome, finalTexts, queries }));
}

/** The attacks that need nothing but the victim and tables. */
const tableAttacks: string[] = [];
for (const name of attackNames)
  await createTableAttack(name, examples).then(
    () => tableAttacks.push(name),
    () => undefined,
  );

describe("a model with logits times 128 and divided by 128", () => {
  test("is attacked by many recipes", () => expect(tableAttacks.length).toBeGreaterThan(8));

  test.each(tableAttacks)("%s has the same outcomes, final texts and queries", async (name) => {
    const expected = await run(name, 1);
    expect(expected.some(({ outcome }) => outcome !== "skipped")).toBe(true);
    expect(await run(name, 128)).toEqual(expected);
    expect(await run(name, 1 / 128)).toEqual(expected);
  });
});

test("candidates with the margin of another one are counted", async () => {
  const [example] = examples;
  const attack = await createTableAttack("greedy", examples);
  const pool = new SearchPool(scriptedVictim(2, () => [0.9, 0.1], 64));
  const [result] = await collect(pool.run([example!], attack, { seed: 0 }));
  // Of the three substitutes of each of six words, two have the margin of the first one.
  expect(result).toMatchObject({ outcome: "failed", queries: 19, ties: 12 });
});
