import { UserError } from "../base/errors.js";
import { readJson } from "../base/files.js";
import { parseSubstitutionTable, type Substitutions } from "./substitutions.js";

/**
 * Loads substitutions: the synonyms of WordNet (`wordnet`), or a JSON file that maps words to lists
 * of words.
 */
export async function loadSubstitutions(spec: string): Promise<Substitutions> {
  if (spec === "wordnet") return (await import("./wordnet.js")).loadWordNet();
  if (!spec.toLowerCase().endsWith(".json")) {
    throw new UserError(
      `substitutions: expected "wordnet" or a JSON file such as {"good": ["great"]}, received "${spec}".`,
    );
  }
  return parseSubstitutionTable(await readJson(spec, "the substitution table"), spec);
}
