import { type ScoredText, type Search, score } from "../protocol.js";
import { editCharacter, listCharacterPlaces } from "../transformations/edit-character.js";

/**
 * Charmer's search (Abad Rocamora et al. 2024): per edit, a space at every place ranks the places,
 * and every character is tried at the best ones. The best text is kept, even if it is not better.
 */
export function characterSearch({
  edits,
  places,
  alphabet,
}: {
  /** Maximum number of edits: the Levenshtein distance. */
  readonly edits: number;
  /** Places of which every character is tried. */
  readonly places: number;
  readonly alphabet: readonly string[];
}): Search {
  return {
    name: `up to ${edits} edits of one character, each at one of ${places} places`,
    cost: `per edit: twice the characters of the text + ${places} x ${alphabet.length + 1}`,
    *run(problem) {
      const open = problem.findOpenPositions(problem.original.text);
      const fields = [...new Set(open.map((position) => problem.original.text.slots[position]!.field))];
      let current = problem.original;
      let best = problem.original;
      for (let edit = 0; edit < edits; edit++) {
        const tests = listCharacterPlaces(current.text, fields).flatMap((place) => {
          // With a space there, or without the space that is there.
          const text = editCharacter(current.text, place, " ") ?? editCharacter(current.text, place, "");
          return text && problem.isAllowed(text) ? [{ place, text }] : [];
        });
        const ranks = yield* score(tests.map(({ text }) => ({ text })));
        const order = [...tests.keys()].sort((a, b) => ranks[b]!.value - ranks[a]!.value || a - b);
        const texts = order.slice(0, places).flatMap((i) =>
          [...alphabet, ""].flatMap((character) => {
            const text = editCharacter(current.text, tests[i]!.place, character);
            return text && problem.isAllowed(text) ? [text] : [];
          }),
        );
        const scored = yield* score(texts.map((text) => ({ text })));
        const next = [...ranks, ...scored].reduce<ScoredText | null>(
          (found, each) => (found && found.value >= each.value ? found : each),
          null,
        );
        if (!next) break;
        if (next.value > best.value) best = next;
        if (next.isReached && !problem.isMaximized) return next.text;
        current = next;
      }
      return best.text;
    },
  };
}
