import { createAttackExample } from "../../attacks/attack-space.js";
import { keepContextualSubstitutes, resolveContextSimilarity } from "../../attacks/context-substitutes.js";
import { findLabel } from "../../attacks/goals/create-goal.js";
import {
  createRecipeAttack,
  findRecipe,
  listResources,
  loadAttack,
  whiteBoxAttacks,
} from "../../attacks/load-attack.js";
import { SearchPool } from "../../attacks/pool.js";
import { type AttackResult, getFinalTexts } from "../../attacks/result.js";
import { createRecipeExample } from "../../attacks/run-recipe.js";
import type { PreparedInput, Victim } from "../../attacks/victim.js";
import { UserError } from "../../errors.js";
import { resolveTablePath } from "../../runs/read-config.js";
import { validate } from "../../validate.js";
import type { Callbacks } from "../callbacks.js";
import { loadRecipeResources } from "../load/load-resources.js";
import { type LoadedVictim, loadVictim } from "../load/load-victim.js";
import { loadSubstitutionsForModel } from "../train/prepare-run.js";
import { type AttackRequest, attackRequestSchema } from "./attack-request.js";
import { createProtection, createRequestConstraints } from "./request-constraints.js";

/** One call of the victim during a search. */
export interface SearchStep {
  /** Texts that were scored. */
  readonly texts: number;
  /** The text that is closest to another class. */
  readonly best: readonly string[];
  /** The probability of the true label for that text. */
  readonly probability: number;
}

/** What an attack did to one text. */
export interface TextAttack {
  readonly attack: string;
  readonly labels: readonly string[];
  readonly result: AttackResult;
  readonly finalTexts: readonly string[];
  readonly steps: readonly SearchStep[];
}

/** Attacks single texts of any label, one after the other, with the model loaded once. */
export interface TextAttacker {
  readonly labels: readonly string[];
  /** Without a label, the predicted class is the true label. */
  attack(texts: readonly string[], label?: string): Promise<TextAttack[]>;
  close(): void;
}

/**
 * Loads a model to attack texts that are not in a dataset.
 *
 *     const attacker = await createTextAttacker({ model: "runs/reviews", attacks: ["textfooler"] });
 *     const [{ finalTexts }] = await attacker.attack(["A quiet film."], "positive");
 */
export async function createTextAttacker(request: AttackRequest, callbacks: Callbacks = {}): Promise<TextAttacker> {
  const parsed = validate(attackRequestSchema, request, "attack");
  const victim = await loadVictim(parsed.model, { ...parsed, onDownload: callbacks.onDownload });
  try {
    const labels = victim.local?.model.labels ?? Array.from({ length: victim.victim.numLabels }, (_, i) => String(i));
    const whiteBox = parsed.attacks.find(({ name }) => whiteBoxAttacks.has(name));
    if (whiteBox) throw new UserError(`attack ${whiteBox.name} attacks datasets only. Use another attack for a text.`);
    const needs = parsed.attacks.flatMap(listResources);
    const usesTable = parsed.attacks.some((spec) => !findRecipe(spec));
    if (usesTable && getContextSimilarity(parsed, victim) !== null) needs.push("encoder");
    if (parsed.maxLikelihoodDrop !== null) needs.push("mlm");
    const loaded = await loadRecipeResources(needs, parsed, victim, labels, callbacks);
    const attackOne = createSingleAttack(parsed, victim, loaded.resources);
    return {
      labels,
      async attack(texts, label) {
        const index = label === undefined ? await predictLabel(victim, texts) : findLabel(label, labels);
        const done: TextAttack[] = [];
        for (const spec of parsed.attacks) done.push({ labels, ...(await attackOne(spec, texts, index)) });
        return done;
      },
      close() {
        loaded.close();
        victim.close();
      },
    };
  } catch (error) {
    victim.close();
    throw error;
  }
}

type ParsedRequest = ReturnType<typeof attackRequestSchema.parse>;
type Resources = Awaited<ReturnType<typeof loadRecipeResources>>["resources"];

function createSingleAttack(request: ParsedRequest, loaded: LoadedVictim, resources: Resources) {
  return async (
    { name, options }: ParsedRequest["attacks"][number],
    texts: readonly string[],
    label: number,
  ): Promise<Omit<TextAttack, "labels">> => {
    const { victim, steps } = recordSteps(loaded.victim, label);
    const pool = new SearchPool(victim, { encode: loaded.encode });
    const modifiableFields = texts.map((_, field) => field);
    const example = { id: "input", texts, label };
    const settings = { seed: request.seed, ...(request.queryBudget !== null && { budget: request.queryBudget }) };
    const run = async (results: AsyncIterable<AttackResult>): Promise<Omit<TextAttack, "labels">> => {
      for await (const result of results) return { attack: name, result, finalTexts: getFinalTexts(result), steps };
      throw new Error("a search ends with a result");
    };
    if (findRecipe({ name, options })) {
      const attack = createRecipeAttack(
        name,
        options,
        resources,
        createRequestConstraints(request, modifiableFields, resources),
      );
      return run(pool.run([createRecipeExample(example, attack)], attack, settings));
    }
    const { maxModificationRate, protectStopWords, matchPartOfSpeech } = request;
    const attackExample = createAttackExample(example, {
      modifiableFields,
      substitutions: await loadSubstitutionsForModel(
        resolveTablePath(getSource(request, loaded)),
        { inVocabSubstitutes: false, caseSensitiveSubstitutes: false },
        loaded.local?.model ?? null,
      ),
      constraints: { maxModificationRate, protectStopWords, matchPartOfSpeech },
      protection: createProtection(request),
      encode: loaded.encode,
    });
    const threshold = getContextSimilarity(request, loaded);
    const ranked =
      threshold === null
        ? [attackExample]
        : await keepContextualSubstitutes([attackExample], resources.encoder!, threshold);
    return run(pool.run(ranked, await loadAttack(name, options), settings));
  };
}

function getSource({ substitutions }: ParsedRequest, { local }: LoadedVictim): string {
  return substitutions ?? local?.run?.config.substitutions ?? "wordnet";
}

function getContextSimilarity(request: ParsedRequest, victim: LoadedVictim): number | null {
  return resolveContextSimilarity(request.minContextSimilarity, getSource(request, victim));
}

async function predictLabel({ victim, encode }: LoadedVictim, texts: readonly string[]): Promise<number> {
  const { words, fields } = encode(texts);
  const input = { words, fields, fieldCount: texts.length, texts: () => [...texts] };
  // The label of the example belongs to the float32 model, as its result does.
  const [row] = await (victim.exact ?? victim).probabilities([victim.prepare(input)]);
  return row!.indexOf(Math.max(...row!));
}

/** A victim that records what each call found. */
function recordSteps(victim: Victim<PreparedInput>, label: number): { victim: Victim; steps: SearchStep[] } {
  const steps: SearchStep[] = [];
  const texts = new WeakMap<PreparedInput, readonly string[]>();
  const { prepareAll: _, ...rest } = victim;
  const recording: Victim = {
    ...rest,
    prepare(input) {
      const prepared = victim.prepare(input);
      texts.set(prepared, input.texts("[UNK]"));
      return prepared;
    },
    async probabilities(inputs) {
      const rows = await victim.probabilities(inputs);
      const best = rows.reduce((a, row, i) => (row[label]! < rows[a]![label]! ? i : a), 0);
      steps.push({ texts: rows.length, best: texts.get(inputs[best]!)!, probability: rows[best]![label]! });
      return rows;
    },
  };
  return { victim: recording, steps };
}
