import { UserError } from "../errors.js";
import type { Model } from "../models/index.js";
import { filterInVocabSubstitutes, loadSubstitutions, type Substitutions } from "../text/substitutions.js";

/**
 * Loads substitutions for a model, all or only those in its vocabulary. `model` is null for an
 * endpoint.
 */
export async function loadSubstitutionsForModel(
  source: string,
  inVocabOnly: boolean,
  model: Model | null,
): Promise<Substitutions> {
  const table = await loadSubstitutions(source);
  if (!inVocabOnly) return table;
  if (model?.tokenization === "word") return filterInVocabSubstitutes(table, model.tokenizer);
  const reason = model
    ? "A model with subword tokenization knows every word."
    : "The vocabulary of an endpoint is unknown.";
  throw new UserError(`--in-vocab-substitutes: ${reason} Leave it out, or use a model with --tokenization word.`);
}
