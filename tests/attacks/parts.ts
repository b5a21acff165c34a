import type { Search, Transformation } from "../../src/attacks/protocol.js";
import { beamSearch } from "../../src/attacks/searches/beam.js";
import { characterSearch } from "../../src/attacks/searches/character-search.js";
import { differentialEvolutionSearch } from "../../src/attacks/searches/differential-evolution.js";
import { exhaustiveSearch } from "../../src/attacks/searches/exhaustive.js";
import { geneticSearch } from "../../src/attacks/searches/genetic.js";
import { guardSearch } from "../../src/attacks/searches/guard.js";
import { localSearch } from "../../src/attacks/searches/local-search.js";
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

const few = { population: 4, iterations: 3 };

/** Every search, small. */
export const searches = {
  unk: rankWordsAndReplace({ by: "unk" }),
  delete: rankWordsAndReplace({ by: "delete" }),
  order: rankWordsAndReplace({ by: "order" }),
  random: rankWordsAndReplace({ by: "random" }),
  greedy: beamSearch(1),
  beam: beamSearch(3),
  saliency: weightedSaliencySearch({ chooseOn: "original", shown: { unknown: true } }),
  "adaptive saliency": weightedSaliencySearch({ chooseOn: "current", shown: { unknown: true } }),
  local: localSearch(),
  exhaustive: exhaustiveSearch(50),
  "random texts": randomSearch(20),
  genetic: geneticSearch(few),
  "best of a word": geneticSearch({ ...few, mutation: "best" }),
  iga: geneticSearch({ ...few, crossover: "single-point", start: "each-word", maxReplacements: 2 }),
  pso: particleSwarmSearch(few),
  leap: particleSwarmSearch({ ...few, isLeap: true }),
  evolution: differentialEvolutionSearch(encodeBadCharacters("homoglyphs", 2), { population: 3, iterations: 3 }),
  characters: characterSearch({ edits: 3, places: 2, alphabet: ["a"] }),
  guard: guardSearch({ maxAddedWords: 2, maxQueries: 80 }),
  portfolio: portfolioSearch(null, { maxQueries: 300, beamPart: 0.3, restartPart: 0.6 }),
} satisfies Record<string, Search>;

export const allCandidates = { candidates: "all", innerOnly: false } as const;
export const innerCandidates = { candidates: "all", innerOnly: true } as const;

const operators: CharacterOperator[] = ["swap", "delete", "insert", "substitute", "keyboard", "homoglyph", "space"];

/** Changes of words that stay at their positions. */
export const replacing: Record<string, Transformation[]> = {
  ...Object.fromEntries(operators.map((operator) => [operator, [changeCharacters(operator, allCandidates)]])),
  "inner letters": operators.map((operator) => changeCharacters(operator, innerCandidates)),
  "bad characters": (["homoglyphs", "invisible", "deletions", "reorderings"] as const).map((kind) =>
    changeBadCharacter(encodeBadCharacters(kind, 2), kind),
  ),
  "names and numbers": [changeNames, changeNumbers],
};

/** Every kind of change that needs no model, and pairs that undo each other. */
export const transformations: Record<string, Transformation[]> = {
  ...replacing,
  "any character": [editCharacters(["a", " "])],
  "insert and delete words": [insertWords(["so", "very"]), deleteWord],
  "append words": [appendWords(["so", "very"])],
  padding: [addPadding(["so"], 2)],
  contractions: [contractWords, expandContractions],
  ...Object.fromEntries(listRewritings().map((each) => [each.name, [rewriteWord(each), rewriteText(each)]])),
};
