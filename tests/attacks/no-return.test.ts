import { expect, test } from "vitest";
import { EditedText } from "../../src/attacks/edited-text.js";
import { untargeted } from "../../src/attacks/goals.js";
import type { Search, Transformation } from "../../src/attacks/protocol.js";
import type { ResourceRequest } from "../../src/attacks/requests.js";
import { type Query, renderQuery, runRecipe } from "../../src/attacks/run-recipe.js";
import { beamSearch } from "../../src/attacks/searches/beam.js";
import { characterSearch } from "../../src/attacks/searches/character-search.js";
import { differentialEvolutionSearch } from "../../src/attacks/searches/differential-evolution.js";
import { exhaustiveSearch } from "../../src/attacks/searches/exhaustive.js";
import { geneticSearch } from "../../src/attacks/searches/genetic.js";
import { guardSearch } from "../../src/attacks/searches/guard.js";
import { climb, localSearch } from "../../src/attacks/searches/local-search.js";
import { particleSwarmSearch } from "../../src/attacks/searches/particle-swarm.js";
import { portfolioSearch } from "../../src/attacks/searches/portfolio.js";
import { randomSearch } from "../../src/attacks/searches/random.js";
import { weightedSaliencySearch } from "../../src/attacks/searches/weighted-saliency.js";
import { rankWordsAndReplace } from "../../src/attacks/searches/word-importance-ranking.js";
import { addPadding, appendWords, insertWords } from "../../src/attacks/transformations/add-words.js";
import { changeBadCharacter, encodeBadCharacters } from "../../src/attacks/transformations/bad-characters.js";
import { type CharacterOperator, changeCharacters } from "../../src/attacks/transformations/change-characters.js";
import { changeNames } from "../../src/attacks/transformations/change-names.js";
import { changeNumbers } from "../../src/attacks/transformations/change-numbers.js";
import { contractWords, expandContractions } from "../../src/attacks/transformations/contractions.js";
import { deleteWord } from "../../src/attacks/transformations/delete-word.js";
import { editCharacters } from "../../src/attacks/transformations/edit-character.js";
import { listRewritings, rewriteText, rewriteWord } from "../../src/attacks/transformations/rewrite-text.js";
import { swapNeighbors } from "../../src/attacks/transformations/swap-neighbors.js";
import { Rng } from "../../src/base/rng.js";
import { hashed } from "./scripted.js";

/** Words that replace each other. */
const circle: Record<string, string[]> = { was: ["is"], is: ["was", "be"], be: ["is"], film: ["plot"], plot: ["film"] };
const table = {
  name: "circle",
  hash: "",
  usesPartOfSpeech: false,
  getSubstitutes: (word: string) => circle[word] ?? [],
};
const characters = encodeBadCharacters("homoglyphs", 1);
const operators: CharacterOperator[] = ["swap", "delete", "insert", "substitute", "keyboard", "homoglyph", "space"];

/** Changes of words that stay at their positions. */
const replacing: Record<string, Transformation[]> = {
  synonyms: [swapNeighbors(table, 3)],
  ...Object.fromEntries(
    operators.map((operator) => [operator, [changeCharacters(operator, { candidates: "all", innerOnly: false })]]),
  ),
  "inner letters": [changeCharacters("swap", { candidates: "all", innerOnly: true })],
  "insert and delete letters": [
    changeCharacters("insert", { candidates: "one", innerOnly: false }),
    changeCharacters("delete", { candidates: "all", innerOnly: false }),
  ],
  "bad characters": [changeBadCharacter(characters, "homoglyphs")],
  "names and numbers": [changeNames, changeNumbers],
};
/** Every kind of change that needs no model, and pairs that undo each other. */
const transformations: Record<string, Transformation[]> = {
  ...replacing,
  "any character": [editCharacters(["a", " "])],
  "insert and delete words": [insertWords(["so", "very"]), deleteWord],
  "append words": [appendWords(["so", "very"])],
  padding: [addPadding(["so"], 2)],
  contractions: [contractWords, expandContractions],
  ...Object.fromEntries(listRewritings().map((each) => [each.name, [rewriteWord(each), rewriteText(each)]])),
};

/** Searches that go from text to text without a limit of their own. */
const walks: Record<string, Search> = {
  greedy: beamSearch(1),
  beam: beamSearch(3),
  local: {
    ...localSearch(),
    run: function* (problem) {
      return (yield* climb(problem, problem.original)).text;
    },
  },
  ranked: rankWordsAndReplace({ by: "delete" }),
};
/** Searches that combine the changes of the words, within a limit. */
const combining: Record<string, Search> = {
  saliency: weightedSaliencySearch({ chooseOn: "original", shown: { unknown: true } }),
  "adaptive saliency": weightedSaliencySearch({ chooseOn: "current", shown: { unknown: true } }),
  local: localSearch(),
  exhaustive: exhaustiveSearch(50),
  random: randomSearch(20),
  genetic: geneticSearch({ population: 4, iterations: 3 }),
  "best of a word": geneticSearch({ population: 4, iterations: 3, mutation: "best" }),
  swarm: particleSwarmSearch({ population: 4, iterations: 3 }),
  evolution: differentialEvolutionSearch(characters, { population: 2, iterations: 2 }),
  characters: characterSearch({ edits: 3, places: 2, alphabet: ["a"] }),
  guard: guardSearch({ maxAddedWords: 3, maxQueries: 100 }),
  portfolio: portfolioSearch(null, { maxQueries: 300, beamPart: 0.3, restartPart: 0.6 }),
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
  const generator = runRecipe(example, EditedText.create([text]), { name: "walk", recipe }, new Rng(0));
  let step = generator.next([]);
  for (let steps = 0; !step.done; steps++) {
    if (steps === maxSteps) throw new Error(`no end after ${maxSteps} steps`);
    const asked = step.value as readonly Query[] | ResourceRequest;
    const answers =
      "resource" in asked
        ? asked.inputs.map(() => "noun")
        : asked.map((query) => ({ probabilities: answer(renderQuery(query, "_").join("|")) }));
    step = generator.next(answers);
  }
  return expanded;
}

const texts = ["was film", "is not", "Anna 12", ""];
const listCases = (searches: Record<string, Search>) =>
  Object.keys(searches).flatMap((name) => Object.keys(scores).map((answer) => [name, answer] as const));

test.each(listCases(walks))("%s ends on %s scores, and never returns to a text", (name, answer) => {
  for (const [kind, made] of Object.entries(transformations))
    for (const text of texts) {
      const expanded = listExpanded(walks[name]!, made, text, scores[answer]!);
      expect(new Set(expanded).size, `${kind} of "${text}"`).toBe(expanded.length);
    }
});

test.each(listCases(combining))("%s ends on %s scores", (name, answer) => {
  for (const made of Object.values(replacing))
    for (const text of texts) listExpanded(combining[name]!, made, text, scores[answer]!);
});
