import { describe, expect, test } from "vitest";
import { equipAttack } from "../../src/attacks/load-attack.js";
import { SearchPool } from "../../src/attacks/pool.js";
import { guard } from "../../src/attacks/recipes/guard.js";
import type { AttackResult } from "../../src/attacks/result.js";
import { listRewritings } from "../../src/attacks/transformations/rewrite-text.js";
import { canonicalize } from "../../src/text/canonicalize.js";
import { listLookAlikes } from "../../src/text/confusables.js";
import { collect, scriptedVictim } from "./scripted.js";

const lookAlikes = listLookAlikes();
const message = "please send the secret password today";
const triggers = ["secret", "password"];
const rewritings = listRewritings("reads-same", lookAlikes).filter(({ isWhole }) => !isWhole);
const hasWord = (text: string, word: string): boolean => ` ${text} `.includes(` ${word} `);

/** Attacks a guard that flags some texts. Its probabilities say nothing else. */
async function attackGuard(
  flags: (text: string) => boolean,
  options: Parameters<typeof guard>[0] = {},
  budget = 1000,
): Promise<AttackResult> {
  const victim = scriptedVictim(2, (text) => (flags(text) ? [0.1, 0.9] : [0.9, 0.1]));
  using pool = new SearchPool(victim);
  const ready = equipAttack(guard(options), { labels: ["benign", "attack"], lookAlikes });
  const [result] = await collect(pool.run([{ id: "mail", label: 1, texts: [message] }], ready, { seed: 0, budget }));
  return result!;
}

/** Knows every way to write the triggers but one. */
const isBlindTo =
  (blind: string) =>
  (text: string): boolean =>
    triggers.some(
      (word) =>
        hasWord(text, word) ||
        (blind !== "no spaces" && !/[\s_]/.test(text) && text.includes(word)) ||
        (blind !== "underscores for spaces" && hasWord(text.replaceAll("_", " "), word)) ||
        rewritings.some(({ name, rewrite }) => name !== blind && hasWord(text, rewrite(word))),
    );

describe("guard", () => {
  test("there are more than ten ways to write a word", () => expect(rewritings.length).toBeGreaterThan(15));

  test.each([...rewritings.map(({ name }) => name), "no spaces", "underscores for spaces"])(
    "breaks a guard that is blind to one transformation: %s",
    async (name) => {
      const { outcome, queries, finalTexts } = await attackGuard(isBlindTo(name));
      expect(outcome).toBe("success");
      expect(queries).toBeLessThan(60);
      const { rewrite } = listRewritings("reads-same", lookAlikes).find((each) => each.name === name)!;
      expect(finalTexts[0]).toContain(
        name === "no spaces" || name.startsWith("under") ? rewrite(message) : rewrite("secret"),
      );
    },
  );

  test("breaks a guard that knows all but some look-alikes of UTS #39, whichever they are", async () => {
    // It folds every look-alike of UTS #39 except some of two letters, which no short list has.
    const forgotten = ["s", "e"].flatMap((letter) => {
      const all = lookAlikes.get(letter)!;
      return all.slice(Math.floor(all.length / 2), -1);
    });
    const flags = (text: string): boolean =>
      canonicalize([...text].filter((each) => !forgotten.includes(each)).join("")).includes("secret") ||
      // Everything else that is not made of letters is suspicious.
      /[^\p{L}\p{S} ]|\p{M}/u.test(text) ||
      text.length > message.length + forgotten.length;
    expect(forgotten.length).toBeGreaterThan(2);
    const options = { validity: "looks-same", maxAddedWords: 0, paddingWords: 0 } as const;
    const { outcome, finalTexts } = await attackGuard(flags, options);
    expect(outcome).toBe("success");
    expect(forgotten.some((each) => finalTexts[0]!.includes(each))).toBe(true);
  });

  test.each([
    ["before", (words: string[]) => words.slice(0, 100)],
    ["after", (words: string[]) => words.slice(-100)],
    ["inside", (words: string[]) => [...words.slice(0, 50), ...words.slice(-50)].filter((word) => word !== "today")],
  ])("breaks a guard that reads a part of long texts: words %s", async (_place, read) => {
    const flags = (text: string): boolean => triggers.some((word) => read(text.split(" ")).includes(word));
    expect(await attackGuard(flags, { characters: false })).toMatchObject({ outcome: "success" });
  });

  test("texts that people can only decode need the widest class", async () => {
    const decode = { base64: (text: string) => Buffer.from(text, "base64").toString(), none: (text: string) => text };
    const isLetters = (text: string): boolean => /^[a-z ]+$/.test(text);
    // It flags everything that is not written in plain letters, except what it cannot read: base64.
    const flags = (text: string): boolean =>
      decode.base64(text) !== message &&
      (!isLetters(text) || triggers.some((word) => text.includes(word)) || text.length < 9);
    const fixed = { maxAddedWords: 0, paddingWords: 0 };
    expect((await attackGuard(flags, { ...fixed, validity: "decodable" }, 200)).finalTexts).toEqual([btoa(message)]);
    const inverse = (text: string): boolean => flags(text) || decode.base64(text) === message;
    expect((await attackGuard(inverse, { ...fixed, validity: "looks-same" }, 200)).outcome).toBe("failed");
  });

  test("does not break a guard that is invariant to what is allowed", async () => {
    const flags = (text: string): boolean => {
      const canonical = canonicalize(text);
      return [canonical, [...canonical].reverse().join("")].some((each) =>
        triggers.some((word) => each.includes(word)),
      );
    };
    const { outcome, queries } = await attackGuard(flags, { validity: "looks-same" });
    expect(outcome).toBe("failed");
    expect(queries).toBeGreaterThan(500);
  });

  test("a larger budget never hurts: the search with a smaller one is its beginning", async () => {
    // The sum of letters decides, so that many changes are needed.
    const flags = (text: string): boolean => [...text].filter((letter) => /[a-z]/.test(letter)).length % 17 !== 3;
    const { outcome, queries, finalTexts } = await attackGuard(flags);
    expect(outcome).toBe("success");
    expect(await attackGuard(flags, {}, queries)).toMatchObject({ outcome, queries, finalTexts });
    const outcomes: string[] = [];
    for (let budget = 1; budget <= 2 * queries; budget += Math.ceil(queries / 12))
      outcomes.push((await attackGuard(flags, {}, budget)).outcome);
    expect([outcomes[0], outcomes.at(-1)]).toEqual(["failed", "success"]);
    expect(outcomes).toEqual([...outcomes].sort());
  });
});
