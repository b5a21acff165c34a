import { UserError } from "../errors.js";
import type { Model } from "../models/index.js";
import { filterInVocabSubstitutes } from "../text/known-substitutes.js";
import { loadSubstitutions, type Substitutions } from "../text/substitutions.js";

/** Opens a substitution set for a model; an endpoint has none at hand. */
export async function loadSubstitutionsForModel(
  spec: string,
  known: boolean,
  model: Model | null,
): Promise<Substitutions> {
  const table = await loadSubstitutions(spec);
  if (!known) return table;
  if (model?.tokenization === "word") return filterInVocabSubstitutes(table, model.tokenizer);
  const reader = model
    ? "a model that reads subwords knows every word"
    : "which words an endpoint knows cannot be seen";
  throw new UserError(`--in-vocab-substitutes: ${reader}; leave it out, or take a model with --tokenization word`);
}
