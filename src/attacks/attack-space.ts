import type { Example } from "../tasks/task.js";
import type { LmConstraint } from "../text/language-model-swaps.js";
import { buildAttackSpace } from "../text/replacements.js";
import type { Substitutions } from "../text/substitutions.js";
import { createTextTemplate, type TextTemplate } from "../text/text-template.js";
import { applyConstraints, type Constraints, getMaxChangedWords, keepLanguageModelSubstitutes } from "./constraints.js";
import type { Candidate } from "./search.js";
import type { VictimInput } from "./victim.js";

/** One example made ready for attack. */
export interface AttackExample {
  readonly id: string;
  readonly label: number;
  readonly texts: readonly string[];
  readonly words: readonly string[];
  readonly fields: ArrayLike<number>;
  /** The attack space: slot 0 is the word itself. */
  readonly replacements: readonly (readonly string[])[];
  readonly maxChanged: number;
  /** True where language-model swaps were asked for and the text is not among them: it is attacked without. */
  readonly withoutLanguageModel: boolean;
}

/** What decides an example's attack space. */
export interface AttackSpaceOptions {
  /** Indices of the fields whose words may change. */
  readonly modifiableFields: readonly number[];
  readonly substitutions: Substitutions;
  readonly constraints: Constraints;
  readonly languageModel?: LmConstraint;
  /** The words as the victim reads them (`tokenizer.encodeWords`, or `splitWords` for a victim without a tokenizer of ours). */
  encode(texts: readonly string[]): { readonly words: readonly string[]; readonly fields: ArrayLike<number> };
}

/** Makes an example ready for attack. */
export function createAttackExample(example: Example, options: AttackSpaceOptions): AttackExample {
  const { id, label, texts } = example;
  const { words, fields } = options.encode(texts);
  let { replacements: choices } = buildAttackSpace(words, fields, options.modifiableFields, options.substitutions);
  let withoutLanguageModel = false;
  if (options.languageModel) {
    const swaps = findLanguageModelSubstitutes(texts, words, fields, options.modifiableFields, options.languageModel);
    if (swaps) choices = keepLanguageModelSubstitutes(choices, swaps);
    else withoutLanguageModel = true;
  }
  choices = applyConstraints(choices, options.constraints);
  return {
    id,
    label,
    texts,
    words,
    fields,
    replacements: choices,
    maxChanged: getMaxChangedWords(words.length, options.constraints),
    withoutLanguageModel,
  };
}

/** Each open field is looked up on its own; closed words have no choices and need no swaps. */
function findLanguageModelSubstitutes(
  texts: readonly string[],
  words: readonly string[],
  fields: ArrayLike<number>,
  modifiableFields: readonly number[],
  languageModel: LmConstraint,
): readonly (readonly string[])[] | undefined {
  const swaps: (readonly string[])[] = words.map(() => []);
  for (const field of modifiableFields) {
    const positions = words.flatMap((_, i) => (fields[i] === field ? [i] : []));
    const found = languageModel.getAllowedSubstitutes(
      texts[field] ?? "",
      positions.map((i) => words[i]!),
    );
    if (!found) return undefined;
    positions.forEach((position, i) => {
      swaps[position] = found[i]!;
    });
  }
  return swaps;
}

/** The words of a candidate. */
export function applyReplacements(target: Pick<AttackExample, "replacements">, picks: Int16Array): string[] {
  return target.replacements.map((slots, i) => slots[picks[i]!]!);
}

/** Turns a target's candidates into what a victim reads. */
export function createInputBuilder(target: AttackExample): (candidate: Candidate) => VictimInput {
  const template = createTextTemplate(target.texts, target.words, target.fields);
  return ({ replacementIndices: picks, mask }) =>
    createVictimInput(applyReplacements(target, picks), target.fields, template, mask);
}

/** A victim's input from its words. */
export function createVictimInput(
  words: readonly string[],
  fields: ArrayLike<number>,
  template: TextTemplate,
  mask?: number,
): VictimInput {
  const texts = (unknown: string) => template.render(mask === undefined ? words : words.with(mask, unknown));
  return { words, fields, fieldCount: template.numTexts, texts, ...(mask !== undefined && { mask }) };
}
