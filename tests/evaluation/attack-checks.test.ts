import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { attack } from "../../src/actions/attack/attack.js";
import { followGradients } from "../../src/attacks/controls.js";
import type { ReadyAttack } from "../../src/attacks/define-attack.js";
import type { PredictProbabilities } from "../../src/attacks/function-victim.js";
import { equipAttack } from "../../src/attacks/load-attack.js";
import { SearchPool } from "../../src/attacks/pool.js";
import { guard } from "../../src/attacks/recipes/guard.js";
import type { GradientSource } from "../../src/attacks/resources.js";
import {
  type AttackCheck,
  checkAttack,
  describeChecks,
  isAdequate,
  notAdequate,
} from "../../src/evaluation/attack-checks.js";
import { collect, scriptedVictim } from "../attacks/scripted.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
const names = ["anna", "bert", "carl", "dora", "emil", "fred", "gina", "hugo"];
const data = names.flatMap((name) => [
  { text: `dear ${name} send the secret password of our server before monday evening please`, label: "attack" },
  { text: `dear ${name} see you soon`, label: "benign" },
]);
const request = { data, labels: ["attack", "benign"], split: "test", cache: false, seed: 3 } as const;

/** A guard from the score of texts. Its classes are attack and benign. */
const flag =
  (score: (text: string) => number): PredictProbabilities =>
  (texts) =>
    texts.map((text) => {
      const value = String(text).includes("see you soon") ? 0.01 : score(String(text));
      return [value, 1 - value];
    });

async function attackGuard(
  name: string,
  model: PredictProbabilities,
  options: Parameters<typeof guard>[0] = {},
  more: object = {},
) {
  const { split, data: examples, cache, seed } = request;
  const attacks = [guard({ benignLabel: "benign", ...options })];
  const common = { data: examples, split, cache, seed, numExamples: 20, queryBudget: 100 };
  return attack({ model, attacks, out: join(folder, name), ...common, ...more });
}

const find = (checks: readonly AttackCheck[] | undefined, name: AttackCheck["name"]): AttackCheck =>
  checks!.find((check) => check.name === name)!;
const countChanged = (text: string): number => {
  const words = new Set(text.split(/\s+/));
  return "send the secret password of our server before monday evening please"
    .split(" ")
    .filter((word) => !words.has(word)).length;
};

describe("checks of an attack", () => {
  test("an honest guard passes those that can run, and each number of the report names them", async () => {
    const report = await attackGuard(
      "honest",
      flag((text) => (/secret|password/.test(text) ? 0.9 : 0.2)),
    );
    const { checks } = report.attacks.guard!;
    expect(checks!.map(({ name, isPassed }) => [name, isPassed])).toEqual([
      ["budget", true],
      ["random", true],
      ["white-box", null],
      ["transfer", null],
    ]);
    expect(isAdequate(checks)).toBe(true);
    expect(describeChecks(checks!)).toBe("2 passed, 2 not run");
    expect(report.sanity.filter(({ name }) => name.startsWith("check-"))).toEqual([]);
  });

  test("budget: a guard that lets everything pass after many requests", async () => {
    let requests = 0;
    let limit = Number.POSITIVE_INFINITY;
    const tired = flag(() => (++requests > limit ? 0.1 : 0.9));
    await attackGuard("counted", tired, {}, { checks: false });
    [limit, requests] = [requests, 0];
    const report = await attackGuard("tired", tired);
    const { checks } = report.attacks.guard!;
    expect(find(checks, "budget")).toMatchObject({ isPassed: false });
    expect(describeChecks(checks!)).toContain(notAdequate);
    expect(report.sanity.map(({ name }) => name)).toContain("check-budget");
  });

  test("random: a guard whose scores lead a search away from what fools it", async () => {
    // It is fooled by three to six changed words, and the more certain the nearer a text comes to that.
    const misleading = flag((text) => {
      const changed = countChanged(text);
      return changed >= 3 && changed <= 6 ? 0.1 : changed === 0 ? 0.8 : changed < 3 ? 0.99 : 0.9;
    });
    const { checks } = (await attackGuard("misleading", misleading)).attacks.guard!;
    expect(find(checks, "random")).toMatchObject({ isPassed: false });
    expect(find(checks, "budget")).toMatchObject({ isPassed: true });
  });

  test("white-box: a guard whose gradients are largest at words that do not matter", async () => {
    const triggers = ["secret", "password"];
    const victim = scriptedVictim(2, (text) =>
      triggers.some((word) => text.includes(word)) ? [0.1, 0.9] : [0.9, 0.1],
    );
    const createSource = (getNorm: (word: string) => number): GradientSource => ({
      name: "gradients",
      kind: "gradient",
      compute: async (queries) =>
        queries.map(({ texts: [text] }) =>
          [...text!.matchAll(/[^ ]+/g)].map(({ 0: word, index }) => {
            return { field: 0, start: index, end: index + word.length, norm: getNorm(word), flips: [] };
          }),
        ),
    });
    using pool = new SearchPool(victim);
    const examples = names.map((name) => ({
      id: name,
      label: 1,
      texts: [`dear ${name} tell me the secret password of the server`],
    }));
    // Without changes of the complete text, only words decide.
    const recipe = equipAttack(guard({ paddingWords: 0, maxAddedWords: 0 }), { labels: ["benign", "attack"] });
    const words = recipe.recipe.transformations.filter(({ kind }) => kind === "swap");
    const ready = { ...recipe, recipe: { ...recipe.recipe, transformations: words } };
    const run = (each: ReadyAttack) => collect(pool.run(examples, each, { seed: 0, budget: 300 }));
    const kinds = { isWhiteBox: false, isTransfer: false };
    const attacks = new Map([["guard", { results: await run(ready), ...kinds }]]);
    const check = async (getNorm: (word: string) => number) => {
      const { attack: guided } = followGradients(ready, 300, createSource(getNorm))!;
      return find(checkAttack("guard", attacks, { "white-box": { results: await run(guided) } }), "white-box");
    };
    expect(await check((word) => Number(triggers.includes(word)))).toMatchObject({ isPassed: true });
    expect(await check((word) => Number(!triggers.includes(word)))).toMatchObject({ isPassed: false });
    expect(followGradients(ready, 300, undefined)).toBeNull();
  });

  test("transfer: an attack that is weaker than the texts of another model", async () => {
    const blind = flag((text) => (/secret|password/.test(text) ? 0.9 : 0.1));
    await attackGuard("other", blind, { validity: "looks-same" });
    const transferFrom = [join(folder, "other", "guard.jsonl")];
    const weak = { characters: false, paddingWords: 0, maxAddedWords: 2 };
    const { attacks } = await attackGuard("weak", blind, weak, { transferFrom });
    expect(find(attacks.guard!.checks, "transfer")).toMatchObject({ isPassed: false });
    const [, transfer] = Object.values(attacks);
    expect(transfer!.checks).toBeUndefined();
    const strong = await attackGuard("strong", blind, {}, { transferFrom });
    expect(find(strong.attacks.guard!.checks, "transfer")).toMatchObject({ isPassed: true });
  });

  test("texts that already have the label of the goal are an error, not a recall of 0 texts", async () => {
    const own = attackGuard(
      "own",
      flag(() => 0.9),
      { benignLabel: "attack" },
      { attackedLabel: "attack" },
    );
    await expect(own).rejects.toThrow(
      /guard: all 8 texts have the label attack, which the attack aims at.*benignLabel/,
    );
  });

  test("a stopped check continues, and a request without checks removes old ones", async () => {
    const model = flag((text) => (/secret/.test(text) ? 0.9 : 0.2));
    const first = await attackGuard("resumed", model);
    const again = await attackGuard("resumed", model, {}, { resume: true });
    expect(again.attacks.guard!.checks).toEqual(first.attacks.guard!.checks);
    const { attacks } = await attackGuard("unchecked", model, {}, { checks: false });
    expect(attacks.guard!.checks!.every(({ isPassed }) => isPassed === null)).toBe(true);
  });
});
