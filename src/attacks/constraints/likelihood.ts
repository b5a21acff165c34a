import { groupBy } from "../../base/group-by.js";
import type { EditedText } from "../edited-text.js";
import type { Constraint } from "../protocol.js";
import { type ResourceGenerator, request } from "../requests.js";
import type { MaskedLanguageModel, WordQuery } from "../resources.js";

/** A new word is at most `limit` less likely than the original word in its place: log P. */
export function maxLikelihoodDrop(model: MaskedLanguageModel, limit: number): Constraint {
  return {
    name: `log-likelihood at most ${limit} below the original word (${model.name})`,
    *filter(candidates) {
      const replaced = candidates.filter(isReplacement);
      const before = yield* request(
        model.likelihood,
        replaced.map(({ original, origin }) => getQuery(original, origin)),
      );
      const after = yield* measureNew(model, replaced);
      const rejected = new Set(replaced.filter((_, i) => after[i]! < before[i]! - limit));
      return candidates.filter((candidate) => !rejected.has(candidate));
    },
  };
}

/** Of the new words for each word, the `count` most likely ones (Alzantot et al. 2018). */
export function keepMostLikely(model: MaskedLanguageModel, count: number): Constraint {
  return {
    name: `the ${count} most likely words (${model.name})`,
    *filter(candidates) {
      const replaced = candidates.filter(isReplacement);
      const likelihoods = yield* measureNew(model, replaced);
      const scored = replaced.map((candidate, i) => ({ candidate, likelihood: likelihoods[i]! }));
      const worse = [...groupBy(scored, ({ candidate }) => candidate.position).values()].flatMap((list) =>
        list.sort((a, b) => b.likelihood - a.likelihood).slice(count),
      );
      const rejected = new Set(worse.map(({ candidate }) => candidate));
      return candidates.filter((candidate) => !rejected.has(candidate));
    },
  };
}

function isReplacement({ edit, origin }: EditedText): boolean {
  return edit?.kind === "replace" && origin >= 0;
}

/** The likelihoods of the new words of candidates. */
function measureNew(
  model: MaskedLanguageModel,
  candidates: readonly EditedText[],
): ResourceGenerator<readonly number[]> {
  return request(
    model.likelihood,
    candidates.map((candidate) => getQuery(candidate, candidate.position)),
  );
}

function getQuery(text: EditedText, position: number): WordQuery {
  const { field, start, end } = text.slots[position]!;
  return { text: text.texts[field]!, start, end };
}
