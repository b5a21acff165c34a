import { createRequire } from "node:module";
import type { WinkMethods } from "wink-nlp";

/**
 * Loads the tagger, whose model takes 0.1 s. A page of the browser has its own version of this
 * file.
 */
export function loadTagger(): WinkMethods {
  const require = createRequire(import.meta.url);
  const create = require("wink-nlp") as (model: unknown, pipeline: string[]) => WinkMethods;
  return create(require("wink-eng-lite-web-model"), ["sbd", "pos"]);
}
