import { UserError } from "../../base/errors.js";
import type { Model } from "../../models/index.js";
import type { RunConfig } from "../../settings/config.js";
import { loadSubstitutions } from "../../text/load-substitutions.js";
import { filterInVocabSubstitutes, matchCaseSensitively, type Substitutions } from "../../text/substitutions.js";

/**
 * Loads substitutions for a model: all, only those in its vocabulary, or only those of words in
 * lower case. `model` is null for an endpoint.
 */
export async function loadSubstitutionsForModel(
  source: string,
  options: Pick<RunConfig, "inVocabSubstitutes" | "caseSensitiveSubstitutes">,
  model: Model | null,
): Promise<Substitutions> {
  const complete = await loadSubstitutions(source);
  const table = options.caseSensitiveSubstitutes ? matchCaseSensitively(complete) : complete;
  if (!options.inVocabSubstitutes) return table;
  if (model && model.tokenization !== "subword") return filterInVocabSubstitutes(table, model.tokenizer);
  const reason = model
    ? "A model with subword tokenization knows every word."
    : "The vocabulary of an endpoint is unknown.";
  throw new UserError(`--in-vocab-substitutes: ${reason} Leave it out, or use a model with --tokenization word.`);
}
