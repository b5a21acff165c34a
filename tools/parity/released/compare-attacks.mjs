// PWWS, Genetic and the language-model constraint beside RIFT's code, on a victim whose answers are hashes of the texts.
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { buildLmConstraint } from "../../../dist/actions/substitutions/build-lm-constraint.js";
import { onlyFields } from "../../../dist/attacks/constraints/words.js";
import { EditedText } from "../../../dist/attacks/edited-text.js";
import { equipAttack, loadAttack } from "../../../dist/attacks/load-attack.js";
import { renderQuery, runRecipe } from "../../../dist/attacks/run-recipe.js";
import { createScore } from "../../../dist/models/inference/score.js";
import { Rng } from "../../../dist/tensor/index.js";
import { loadLmConstraint } from "../../../dist/text/lm-constraint.js";
import { parseSubstitutionTable } from "../../../dist/text/substitutions.js";
import { compareCounts } from "./rows.mjs";

const numWords = 40;
const numTexts = 30;
const [population, iterations] = [8, 5];

/**
 * The victims, with the logits of an original text and of no other class than these. An unknown word is [UNK], so that
 * substitutes can be equally good. In Genetic there are none: of equally good words, Temper keeps that of the text, and the
 * code takes the first of its list. The code compares p(y), as Temper does with scores: probabilities, and on pairs Genetic
 * compares margins. By default, Temper divides margins by that of the original text and multiplies them by 4. So its
 * searches equal those of the code if that margin is 4, and in PWWS only for two classes.
 */
const victims = {
  pwws: { unknown: /w3\d|NULL/g, original: [4, 0] },
  pwwsOnPairs: { unknown: /w3\d|NULL/g, original: [2.5, 0, -1] },
  genetic: { unknown: /(?!)/g, original: [2.5, 0] },
  geneticOnPairs: { unknown: /(?!)/g, original: [4, 0, -1] },
};

/** A victim: how it reads texts, and its logits, which depend on what it reads only. */
function createVictim(inputs, { unknown, original }) {
  const read = (texts) => texts.join(" [SEP] ").replaceAll(unknown, "[UNK]");
  const originals = new Set(inputs.map(read));
  const score = (text) => {
    if (originals.has(text)) return original;
    const digest = createHash("sha256").update(text).digest();
    const weights = original.map((_, i) => 0.01 + digest.readUInt32LE(4 * i) / 2 ** 32);
    return weights.map((weight, i) => Math.log(i === 0 ? 20 * weight : weight));
  };
  return { read, score };
}

const findWords = (texts) =>
  texts.flatMap((text, field) =>
    [...text.matchAll(/[^ ]+/g)].map(({ index, 0: word }) => ({ field, start: index, end: index + word.length })),
  );

/** Runs an attack on a text or a pair. Returns its result and everything that the victim has read. */
function attackInput(attack, texts, { read, score }, rng) {
  const generator = runRecipe({ id: "0", label: 0 }, EditedText.create(texts, findWords), attack, rng);
  const queries = [];
  let step = generator.next([]);
  while (!step.done) {
    const inputs = step.value.map((query) => read(renderQuery(query, "[UNK]")));
    queries.push(...inputs);
    step = generator.next(inputs.map((input) => createScore(score(input), true)));
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
  const pairs = createTexts(rng).map((premise, i) => [premise, texts[i]]);
  const substitutions = parseSubstitutionTable(table, "toy table");
  const resources = { substitutions, caseInsensitiveSubstitutes: substitutions, labels: ["0", "1", "2"] };
  const scores = "probabilities";
  const loadPwws = (more = {}) =>
    loadAttack({ name: "pwws", options: { saliencyWord: "NULL", ties: "last", ...more } });
  // The code never checks its last generation.
  const loadGenetic = (more = {}) =>
    Promise.all(
      [iterations, iterations - 1].map((each) =>
        loadAttack({ name: "genetic", options: { population, iterations: each, ...more } }),
      ),
    );
  const singles = texts.map((text) => [text]);
  const runs = {
    pwws: { inputs: singles, attacks: [await loadPwws()], fields: [0] },
    genetic: { inputs: singles, attacks: await loadGenetic({ scores }), fields: [0] },
    pwwsOnPairs: { inputs: pairs, attacks: [await loadPwws({ scores })], fields: [1] },
    geneticOnPairs: { inputs: pairs, attacks: await loadGenetic(), fields: [1] },
  };
  const live = Object.entries(runs).map(([name, { inputs, attacks, fields }]) => {
    const ready = attacks.map((attack) => equipAttack(attack, resources, [onlyFields(fields)]));
    return [name, { inputs, attacks: ready, victim: createVictim(inputs, victims[name]) }];
  });
  return { ...Object.fromEntries(live), texts, mixing, mutation, constraint: await loadLmConstraint(out) };
}

const isSuccess = ({ outcome }) => outcome === "success";
const hashSorted = (list) =>
  createHash("sha256")
    .update([...list].sort().join("\n"))
    .digest("hex");

function comparePwws(name, released, { inputs, attacks, victim }) {
  const results = inputs.map((texts) => attackInput(attacks[0], texts, victim, new Rng(0)).result);
  const count = (isDifferent) => results.filter(isDifferent).length;
  return [
    compareCounts(
      `${name}: final texts`,
      inputs.length,
      count(({ finalTexts }, i) => JSON.stringify(finalTexts) !== JSON.stringify(released[i].texts)),
    ),
    compareCounts(
      `${name}: outcomes`,
      inputs.length,
      count((result, i) => isSuccess(result) !== released[i].isSuccess),
    ),
  ];
}

function compareGenetic(name, released, { inputs, attacks, victim }, { mixing, mutation }) {
  const run = (attack, texts) => {
    const [next, integer] = [mixing, mutation].map((numbers) => numbers.values());
    return attackInput(attack, texts, victim, {
      next: () => next.next().value,
      integer: (n) => Math.floor(integer.next().value * n),
      fork: () => new Rng("transformations"),
    });
  };
  const count = (isDifferent) => inputs.filter(isDifferent).length;
  return [
    compareCounts(
      `${name}: all queries of texts`,
      inputs.length,
      count((texts, i) => hashSorted(run(attacks[0], texts).queries) !== released[i].queries),
    ),
    compareCounts(
      `${name}: outcomes without the last generation`,
      inputs.length,
      count((texts, i) => isSuccess(run(attacks[1], texts).result) !== released[i].isSuccess),
    ),
  ];
}

export function compareAttacks(released, { texts, constraint, ...live }) {
  const countTexts = (isDifferent) => texts.filter(isDifferent).length;
  return [
    ...comparePwws("PWWS", released.pwws, live.pwws),
    ...comparePwws("PWWS, pairs, scores: probabilities", released.pwwsOnPairs, live.pwwsOnPairs),
    ...compareGenetic("Genetic, scores: probabilities", released.genetic, live.genetic, live),
    ...compareGenetic("Genetic, pairs", released.geneticOnPairs, live.geneticOnPairs, live),
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
