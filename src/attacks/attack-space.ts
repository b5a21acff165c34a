import type { Example } from "../tasks/example.js";
import type { LmConstraint } from "../text/lm-constraint.js";
import { buildAttackSpace } from "../text/replacements.js";
import type { Substitutions } from "../text/substitutions.js";
import { createTextTemplate, type TextTemplate } from "../text/text-template.js";
import { applyConstraints, type Constraints, getMaxChangedWords, keepLanguageModelSubstitutes } from "./constraints.js";
import { EditedText } from "./edited-text.js";
import type { Constraint, TextCandidate } from "./recipe.js";
import type { Candidate } from "./search.js";
import type { VictimInput } from "./victim.js";

/** An example with its attack space. */
export interface AttackExample {
  readonly id: string;
  readonly label: number;
  readonly texts: readonly string[];
  readonly words: readonly string[];
  readonly fields: ArrayLike<number>;
  /** The attack space: the replacements of each word. Index 0 is the word itself. */
  readonly replacements: readonly (readonly string[])[];
  readonly maxChanged: number;
}

/** What determines an example's attack space. */
export interface AttackSpaceOptions {
  /** Indices of the fields whose words may change. */
  readonly modifiableFields: readonly number[];
  readonly substitutions: Substitutions;
  readonly constraints: Constraints;
  readonly languageModel?: LmConstraint;
  /** Text that stays as it is. */
  readonly protection?: Constraint | null;
  /**
   * Splits texts into the words that the victim reads: `tokenizer.encodeWords`, or `splitWords`.
   */
  encode(texts: readonly string[]): { readonly words: readonly string[]; readonly fields: ArrayLike<number> };
}

/** Computes the attack space of an example. */
export function createAttackExample({ id, label, texts }: Example, options: AttackSpaceOptions): AttackExample {
  const { constraints, languageModel, modifiableFields, substitutions } = options;
  const { words, fields } = options.encode(texts);
  let { replacements } = buildAttackSpace(words, fields, modifiableFields, substitutions);
  const allowed = languageModel && findAllowedSubstitutes(texts, words, fields, modifiableFields, languageModel);
  if (languageModel && !allowed) throw new Error(`${languageModel.name} does not cover ${id}.`);
  if (allowed) replacements = keepLanguageModelSubstitutes(replacements, allowed);
  if (options.protection) replacements = keepProtectedWords(texts, words, fields, replacements, options.protection);
  return {
    id,
    label,
    texts,
    words,
    fields,
    replacements: applyConstraints(replacements, constraints),
    maxChanged: getMaxChangedWords(words.length, constraints),
  };
}

/** Removes the replacements of protected words. */
function keepProtectedWords(
  texts: readonly string[],
  words: readonly string[],
  fields: ArrayLike<number>,
  replacements: readonly (readonly string[])[],
  { isOpen }: Constraint,
): readonly (readonly string[])[] {
  const ends = texts.map(() => 0);
  const places = words.map((word, i) => {
    const field = fields[i]!;
    const start = texts[field]!.indexOf(word, ends[field]);
    // If a tokenizer changed the spelling of a word, its place is unknown.
    if (start >= 0) ends[field] = start + word.length;
    return { field, start, end: start + word.length };
  });
  const text = EditedText.create(texts, (_, field) => places.filter((place) => place.field === field));
  return replacements.map((list, i) => (isOpen?.(text, i, "swap") === false ? list.slice(0, 1) : list));
}

/** Looks up each modifiable field. Words of other fields have no substitutes. */
function findAllowedSubstitutes(
  texts: readonly string[],
  words: readonly string[],
  fields: ArrayLike<number>,
  modifiableFields: readonly number[],
  languageModel: LmConstraint,
): readonly (readonly string[])[] | undefined {
  const allowed: (readonly string[])[] = words.map(() => []);
  for (const field of modifiableFields) {
    const positions = words.flatMap((_, i) => (fields[i] === field ? [i] : []));
    const fieldWords = positions.map((position) => words[position]!);
    const found = languageModel.getAllowedSubstitutes(texts[field] ?? "", fieldWords);
    if (!found) return undefined;
    positions.forEach((position, i) => {
      allowed[position] = found[i]!;
    });
  }
  return allowed;
}

/** Returns the words of a candidate. */
export function applyReplacements(
  { replacements }: Pick<AttackExample, "replacements">,
  replacementIndices: Int16Array,
): string[] {
  return replacements.map((words, i) => words[replacementIndices[i]!]!);
}

/** Returns a function that converts candidates into victim inputs. */
export function createInputBuilder(example: AttackExample): (candidate: Candidate) => VictimInput {
  const template = createTextTemplate(example.texts, example.words, example.fields);
  return ({ replacementIndices, mask, maskWord }) => {
    const words = applyReplacements(example, replacementIndices);
    return mask !== undefined && maskWord !== undefined
      ? createVictimInput(words.with(mask, maskWord), example.fields, template)
      : createVictimInput(words, example.fields, template, mask);
  };
}

/** Creates a victim input from words. */
export function createVictimInput(
  words: readonly string[],
  fields: ArrayLike<number>,
  template: TextTemplate,
  mask?: number,
): VictimInput {
  const texts = (unkToken: string) => template.render(mask === undefined ? words : words.with(mask, unkToken));
  return { words, fields, fieldCount: template.numTexts, texts, ...(mask !== undefined && { mask }) };
}

/** A character that no vocabulary contains, so that word-level models read it as unknown. */
const unknownCharacter = "\ue000";

/** Creates a victim input from texts. Their words are found only if the victim reads words. */
export function createTextInput(
  texts: (unkToken: string) => string[],
  fieldCount: number,
  encode: AttackSpaceOptions["encode"],
): VictimInput {
  let found: ReturnType<typeof encode> | undefined;
  const getEncoding = () => {
    found ??= encode(texts(unknownCharacter));
    return found;
  };
  return {
    get words() {
      return getEncoding().words;
    },
    get fields() {
      return getEncoding().fields;
    },
    fieldCount,
    texts,
  };
}

/** Returns a function that converts the candidates of recipes into victim inputs. */
export function createTextInputBuilder(
  encode: AttackSpaceOptions["encode"],
): (candidate: TextCandidate) => VictimInput {
  return ({ text, mask }) =>
    createTextInput(
      (unkToken) => (mask === undefined ? [...text.texts] : text.render(mask, unkToken)),
      text.texts.length,
      encode,
    );
}
