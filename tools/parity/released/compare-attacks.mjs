// PWWS, Genetic and the language-model constraint beside RIFT's code, on a victim whose answers are hashes of the texts.
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { buildLmConstraint } from "../../../dist/actions/substitutions/build-lm-constraint.js";
import { EditedText } from "../../../dist/attacks/edited-text.js";
import { createRecipeAttack, loadAttack } from "../../../dist/attacks/load-attack.js";
import { runRecipe } from "../../../dist/attacks/run-recipe.js";
import { createVictimInput } from "../../../dist/attacks/victim-input.js";
import { Rng } from "../../../dist/tensor/index.js";
import { loadLmConstraint } from "../../../dist/text/lm-constraint.js";
import { parseSubstitutionTable } from "../../../dist/text/substitutions.js";
import { compareCounts } from "./rows.mjs";

const numWords = 40;
const numTexts = 30;
const [population, iterations] = [8, 5];

/** The logit margin of an original text. Temper's searches divide the margins of a text by it and multiply them by 4. */
const originalMargin = 4;

/**
 * Words that the victim does not know, so that substitutes can be equally good. In Genetic there are none: of equally
 * good words, Temper keeps that of the text, and the code takes the first of its list.
 */
const unknownWords = { pwws: /w3\d/g, genetic: /(?!)/g };

/** Two probabilities that depend on the text only. released_attacks.py has the same function. */
function createScorer(texts, unknown) {
  return (text) => {
    if (texts.includes(text)) return [1 / (1 + Math.exp(-originalMargin)), 1 / (1 + Math.exp(originalMargin))];
    const digest = createHash("sha256").update(text.replaceAll(unknown, "[UNK]")).digest();
    const weights = [0, 1].map((i) => 0.01 + digest.readUInt32LE(4 * i) / 2 ** 32);
    weights[0] *= 20;
    return weights.map((weight) => weight / (weights[0] + weights[1]));
  };
}

const findWords = (texts) =>
  texts.flatMap((text, field) =>
    [...text.matchAll(/[^ ]+/g)].map(({ index, 0: word }) => ({ field, start: index, end: index + word.length })),
  );

/** Runs an attack on a text. Returns its result and all texts that it has scored. */
function attackText(attack, text, score, rng) {
  const generator = runRecipe({ id: "0", label: 0 }, EditedText.create([text], findWords), attack, rng);
  const queries = [];
  let step = generator.next([]);
  while (!step.done) {
    const inputs = step.value.map((query) => createVictimInput(query)("[UNK]")[0]);
    queries.push(...inputs);
    step = generator.next(inputs.map((input) => ({ probabilities: score(input) })));
  }
  // The final text is scored again for the result.
  return { result: step.value, queries: queries.slice(0, -1) };
}

/** Every second word has one to eight substitutes. */
function createTable(rng) {
  const words = Array.from({ length: numWords }, (_, i) => `w${i}`);
  const open = words.filter((_, i) => i % 2 === 0);
  return Object.fromEntries(
    open.map((word) => [word, rng.shuffle(words.filter((other) => other !== word)).slice(0, 1 + rng.integer(8))]),
  );
}

/** Texts of 6 to 13 words, the first of which has substitutes. */
function createTexts(rng) {
  return Array.from({ length: numTexts }, () =>
    ["w0", ...Array.from({ length: 5 + rng.integer(8) }, () => `w${rng.integer(numWords)}`)].join(" "),
  );
}

/** Scores in the format that was released for Genetic: some differences of log-probabilities are exactly -5. */
function createScores(texts, table, rng) {
  const lines = texts.flatMap((text, i) => [
    `${i}\t${text}`,
    ...text.split(" ").flatMap((word, position) => {
      if (!table[word]) return [];
      const own = -20 - rng.integer(40) / 4;
      const others = table[word].map((other) => [other, own - rng.integer(40) / 4]);
      // Words that are not in the table are not allowed.
      return [[word, own], ...others, ["unlisted", own]].map((each) => `${i}\t${position}\t${each.join("\t")}`);
    }),
  ]);
  return `${lines.join("\n")}\n`;
}

export async function prepareAttacks(folder) {
  const rng = new Rng("released attacks");
  const table = createTable(rng);
  const texts = createTexts(rng);
  const [tablePath, scoresPath] = [join(folder, "table.json"), join(folder, "scores.txt")];
  writeFileSync(tablePath, JSON.stringify(table));
  writeFileSync(scoresPath, createScores(texts, table, rng));
  const out = join(folder, "scores.lm.json");
  await buildLmConstraint({ scores: scoresPath, substitutions: tablePath, out });
  const [mixing, mutation] = [1000, 100].map((length) => Array.from({ length }, () => rng.next()));
  const request = { table, texts, population, iterations, mixing, mutation, tablePath, scoresPath };
  const substitutions = parseSubstitutionTable(table, "toy table");
  const resources = { substitutions, caseInsensitiveSubstitutes: substitutions, labels: ["0", "1"] };
  const load = async (spec) => createRecipeAttack(await loadAttack(spec), resources);
  const [pwws, genetic, shorter] = await Promise.all([
    load({ name: "pwws", options: { saliencyWord: "NULL", ties: "last" } }),
    load({ name: "genetic", options: { population, iterations } }),
    load({ name: "genetic", options: { population, iterations: iterations - 1 } }),
  ]);
  return { request, pwws, genetic, shorter, constraint: await loadLmConstraint(out) };
}

export function compareAttacks(released, { request, pwws, genetic, shorter, constraint }) {
  const { texts, mixing, mutation } = request;
  const createStream = () => {
    const [next, integer] = [mixing, mutation].map((numbers) => numbers.values());
    return {
      next: () => next.next().value,
      integer: (n) => Math.floor(integer.next().value * n),
      fork: () => new Rng("transformations"),
    };
  };
  const forPwws = createScorer(texts, unknownWords.pwws);
  const forGenetic = createScorer(texts, unknownWords.genetic);
  const countTexts = (isDifferent) => texts.filter(isDifferent).length;
  const isSuccess = ({ outcome }) => outcome === "success";
  const pwwsResults = texts.map((text) => attackText(pwws, text, forPwws, new Rng(0)).result);
  const geneticRuns = texts.map((text) => attackText(genetic, text, forGenetic, createStream()));
  const checked = texts.map((text) => attackText(shorter, text, forGenetic, createStream()).result);
  const sort = (list) => JSON.stringify([...list].sort());
  return [
    compareCounts(
      "PWWS: final texts",
      texts.length,
      countTexts((_, i) => pwwsResults[i].finalTexts[0] !== released.pwws[i].text),
    ),
    compareCounts(
      "PWWS: outcomes",
      texts.length,
      countTexts((_, i) => isSuccess(pwwsResults[i]) !== released.pwws[i].isSuccess),
    ),
    compareCounts(
      "Genetic: all queries of texts",
      texts.length,
      countTexts((_, i) => sort(geneticRuns[i].queries) !== sort(released.genetic[i].queries)),
    ),
    // The code never checks its last generation.
    compareCounts(
      "Genetic: outcomes without the last generation",
      texts.length,
      countTexts((_, i) => isSuccess(checked[i]) !== released.genetic[i].isSuccess),
    ),
    compareCounts(
      "Language-model constraint: texts",
      texts.length,
      countTexts((text, i) => {
        const allowed = constraint.getAllowedSubstitutes(text, findWords([text]));
        return JSON.stringify(allowed) !== JSON.stringify(released.allowed[i]);
      }),
    ),
  ];
}
