import { expect, test } from "vitest";
import { EditedText } from "../../src/attacks/edited-text.js";
import { untargeted } from "../../src/attacks/goals.js";
import type { Search, Transformation } from "../../src/attacks/protocol.js";
import { runRecipe } from "../../src/attacks/run-recipe.js";
import { climb, localSearch } from "../../src/attacks/searches/local-search.js";
import { swapNeighbors } from "../../src/attacks/transformations/swap-neighbors.js";
import { Rng } from "../../src/base/rng.js";
import { replacing, searches, transformations } from "./parts.js";
import { answerQueries, createTable, hashed } from "./scripted.js";

/** Words that replace each other. */
const circle = createTable([
  ["was", "is"],
  ["is", "was", "be"],
  ["be", "is"],
  ["film", "plot"],
  ["plot", "film"],
]);
const synonyms = { synonyms: [swapNeighbors(circle, 3)] };

const { delete: ranked, greedy, beam, order: _order, random: _random, unk: _unk, ...combining } = searches;
/** Searches that go from text to text without a limit of their own. */
const walks: Record<string, Search> = {
  ...{ greedy, beam, ranked },
  local: {
    ...localSearch(),
    run: function* (problem) {
      return (yield* climb(problem, problem.original)).text;
    },
  },
};

/** Scores that never reach the goal, so that a search goes on as long as it can. */
const scores: Record<string, (text: string) => readonly number[]> = {
  equal: () => [0.9, 0.1],
  random: (text) =>
    hashed(2)(text).map((value, label) => (label === 0 ? 0.5 + value / 2 : (1 - hashed(2)(text)[0]!) / 2)),
};

/** More steps than any of these searches needs for two words. One that runs in circles takes more. */
const maxSteps = 3000;

/** Runs a search without constraints, and lists the texts whose changes it asked for. */
function listExpanded(
  search: Search,
  made: Transformation[],
  text: string,
  answer: (text: string) => readonly number[],
) {
  const expanded: string[] = [];
  const watched: Search = {
    ...search,
    *run(problem, rng) {
      const generator = search.run(problem, rng);
      let step = generator.next([]);
      while (!step.done) {
        const asked = step.value;
        if ("kind" in asked && asked.kind === "expand")
          expanded.push(`${asked.text.texts.join("|")} ${asked.positions} ${asked.only}`);
        step = generator.next((yield asked) as readonly unknown[]);
      }
      return step.value;
    },
  };
  const recipe = { goal: untargeted, transformations: made, constraints: [], search: watched };
  const example = { id: "0", label: 0 };
  answerQueries(runRecipe(example, EditedText.create([text]), { name: "walk", recipe }, new Rng(0)), answer, maxSteps);
  return expanded;
}

const texts = ["was film", "is not", "Anna 12", ""];
const listCases = (searches: Record<string, Search>) =>
  Object.keys(searches).flatMap((name) => Object.keys(scores).map((answer) => [name, answer] as const));

test.each(listCases(walks))("%s ends on %s scores, and never returns to a text", (name, answer) => {
  for (const [kind, made] of Object.entries({ ...synonyms, ...transformations }))
    for (const text of texts) {
      const expanded = listExpanded(walks[name]!, made, text, scores[answer]!);
      expect(new Set(expanded).size, `${kind} of "${text}"`).toBe(expanded.length);
    }
});

test.each(listCases(combining))("%s ends on %s scores", (name, answer) => {
  for (const made of Object.values({ ...synonyms, ...replacing }))
    for (const text of texts) listExpanded(combining[name as keyof typeof combining], made, text, scores[answer]!);
});
