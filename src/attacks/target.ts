import type { Example } from "../tasks/task.js";
import type { LanguageModelSwaps } from "../text/language-model-swaps.js";
import { type Template, templateOf } from "../text/rendering.js";
import { slotsOf } from "../text/slots.js";
import type { Substitutions } from "../text/substitutions.js";
import { type Constraints, constrain, keepSwaps, mostChanged } from "./constraints.js";
import type { Candidate } from "./search.js";
import type { VictimInput } from "./victim.js";

/** One example made ready for attack. */
export interface Target {
  readonly id: string;
  readonly label: number;
  readonly texts: readonly string[];
  readonly words: readonly string[];
  readonly fields: ArrayLike<number>;
  /** The attack space: slot 0 is the word itself. */
  readonly choices: readonly (readonly string[])[];
  readonly maxChanged: number;
  /** True where language-model swaps were asked for and the text is not among them: it is attacked without. */
  readonly withoutLanguageModel: boolean;
}

/** What decides an example's attack space. */
export interface TargetOptions {
  /** Indices of the fields whose words may change. */
  readonly openFields: readonly number[];
  readonly substitutions: Substitutions;
  readonly constraints: Constraints;
  readonly languageModel?: LanguageModelSwaps;
  /** The words as the victim reads them (`tokenizer.encodeWords`, or `splitWords` for a victim without a tokenizer of ours). */
  encode(texts: readonly string[]): { readonly words: readonly string[]; readonly fields: ArrayLike<number> };
}

/** Makes an example ready for attack. */
export function targetOf(example: Example, options: TargetOptions): Target {
  const { id, label, texts } = example;
  const { words, fields } = options.encode(texts);
  let { choices } = slotsOf(words, fields, options.openFields, options.substitutions);
  let withoutLanguageModel = false;
  if (options.languageModel) {
    const swaps = swapsOf(texts, words, fields, options.openFields, options.languageModel);
    if (swaps) choices = keepSwaps(choices, swaps);
    else withoutLanguageModel = true;
  }
  choices = constrain(choices, options.constraints);
  return { id, label, texts, words, fields, choices, maxChanged: mostChanged(words.length, options.constraints), withoutLanguageModel };
}

/** Each open field is looked up on its own; closed words have no choices and need no swaps. */
function swapsOf(
  texts: readonly string[],
  words: readonly string[],
  fields: ArrayLike<number>,
  openFields: readonly number[],
  languageModel: LanguageModelSwaps,
): readonly (readonly string[])[] | undefined {
  const swaps: (readonly string[])[] = words.map(() => []);
  for (const field of openFields) {
    const positions = words.flatMap((_, i) => (fields[i] === field ? [i] : []));
    const found = languageModel.of(
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
export function wordsOf(target: Pick<Target, "choices">, picks: Int16Array): string[] {
  return target.choices.map((slots, i) => slots[picks[i]!]!);
}

/** Turns a target's candidates into what a victim reads. */
export function inputsOf(target: Target): (candidate: Candidate) => VictimInput {
  const template = templateOf(target.texts, target.words, target.fields);
  return ({ picks, mask }) => inputOf(wordsOf(target, picks), target.fields, template, mask);
}

/** A victim's input from its words. */
export function inputOf(words: readonly string[], fields: ArrayLike<number>, template: Template, mask?: number): VictimInput {
  const texts = (unknown: string) => template.render(mask === undefined ? words : words.with(mask, unknown));
  return { words, fields, fieldCount: template.texts, texts, ...(mask !== undefined && { mask }) };
}
