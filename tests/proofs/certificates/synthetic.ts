import type { Rng } from "../../../src/base/rng.js";
import type {
  CertifiedModel,
  LabelScores,
  ScoreTexts,
  TextFields,
  WordEdits,
} from "../../../src/proofs/certificates/index.js";

/** A number in [0, 1) that depends on the text and the seed alone. */
export function hashToUnit(text: string, seed: number): number {
  let hash = Math.imul(seed + 1, 0x9e3779b1);
  for (let i = 0; i < text.length; i++) hash = Math.imul((hash << 5) ^ (hash >>> 11) ^ text.charCodeAt(i), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 15), 0xc2b2ae35);
  return ((hash ^ (hash >>> 13)) >>> 0) / 2 ** 32;
}

function toModel(score: (text: string, label: number) => number, numLabels: number): ScoreTexts {
  return (texts) =>
    texts.map((fields: TextFields): LabelScores => {
      const text = fields.join("\n");
      return Array.from({ length: numLabels }, (_, label) => score(text, label));
    });
}

/** A model that answers every text at random: any change of a text changes all its scores. */
export function createLookupModel(seed: number, numLabels: number): ScoreTexts {
  return toModel((text, label) => hashToUnit(`${label}:${text}`, seed), numLabels);
}

/** A linear model over the words of a text. */
export function createLinearModel(seed: number, numLabels: number): ScoreTexts {
  const weights = new Map<string, number>();
  const getWeight = (key: string): number => {
    const known = weights.get(key);
    if (known !== undefined) return known;
    const weight = hashToUnit(key, seed) - 0.5;
    weights.set(key, weight);
    return weight;
  };
  const score = (text: string, label: number): number =>
    text.split(" ").reduce((sum, word) => sum + getWeight(`${label}:${word}`), 0);
  return toModel(score, numLabels);
}

export const vocabulary: readonly string[] = Array.from({ length: 40 }, (_, i) => `w${i}`);

export function drawWords(rng: Rng, count: number, words = vocabulary): string[] {
  return Array.from({ length: count }, () => words[rng.integer(words.length)]!);
}

/** All numbers of edits up to a limit of each, the fewest substitutions first. */
export function listWordEdits(maxSubstitutions: number, maxInsertions: number): WordEdits[] {
  return Array.from({ length: maxSubstitutions + 1 }, (_, substitutions) =>
    Array.from({ length: maxInsertions + 1 }, (_, insertions) => ({ substitutions, insertions })),
  ).flat();
}

/** Makes random edits at random places: substitutions, then insertions or deletions. */
export function editWords(original: readonly string[], edits: WordEdits, rng: Rng, words = vocabulary): string[] {
  const edited = [...original];
  for (let i = 0; i < edits.substitutions && edited.length > 0; i++)
    edited[rng.integer(edited.length)] = words[rng.integer(words.length)]!;
  for (let i = 0; i < edits.insertions; i++) {
    if (edited.length > 0 && rng.next() < 0.5) edited.splice(rng.integer(edited.length), 1);
    else edited.splice(rng.integer(edited.length + 1), 0, words[rng.integer(words.length)]!);
  }
  return edited;
}

/** The scores that an attack sees of a certified model, whose parts another model scores. */
export function scoreByParts(model: CertifiedModel, scoreTexts: ScoreTexts): ScoreTexts {
  return (texts) =>
    Promise.all(
      texts.map(async (fields) => {
        const rows = await scoreTexts(model.split(fields));
        return model.score?.(rows) ?? model.answer(rows).probabilities;
      }),
    );
}
