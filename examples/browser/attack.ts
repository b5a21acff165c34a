import { EditedText } from "../../src/attacks/edited-text.js";
import type { Recipe } from "../../src/attacks/protocol.js";
import { deepwordbug } from "../../src/attacks/recipes/deepwordbug.js";
import { greedy } from "../../src/attacks/recipes/greedy.js";
import type { AttackResult } from "../../src/attacks/result.js";
import { type Query, renderQuery, runRecipe } from "../../src/attacks/run-recipe.js";
import { Rng } from "../../src/base/rng.js";
import type { Substitutions } from "../../src/text/substitutions.js";
import type { BrowserModel } from "./model.js";

/** The attacks of the page. They need no other model. */
export const attacks = { greedy, deepwordbug };
export type AttackName = keyof typeof attacks;

/** Texts per call of the model. */
const maxCallSize = 16;

/**
 * Attacks a text with a recipe of Temper. The search is a generator that asks for scores; here the
 * model of the page answers. With the same model, the result is that of `temper attack --input`.
 */
export async function attackText(
  model: BrowserModel,
  name: AttackName,
  text: string,
  substitutions: Substitutions,
  onQueries: (queries: number) => void = () => undefined,
): Promise<AttackResult> {
  const { build, options } = attacks[name];
  const resources = { substitutions, labels: model.labels } as never;
  const recipe = build(options.parse({}) as never, resources) as Recipe;
  const row = Array.from(await model.classify(text));
  const label = row.indexOf(Math.max(...row));
  const rng = new Rng(0).fork("attack", name).fork("input");
  const search = runRecipe({ id: "input", label }, EditedText.create([text]), { name, recipe }, rng);
  let queries = 0;
  let step = search.next([]);
  while (!step.done) {
    const asked = step.value;
    // These attacks use no resource that is a model, so they only ask for scores.
    if ("resource" in asked) throw new Error(`attack ${name}: expected a request for scores`);
    const scores = [];
    const texts = (asked as readonly Query[]).map((query) => renderQuery(query, model.unknown)[0]!);
    for (let start = 0; start < texts.length; start += maxCallSize) {
      const answers = await model.score(texts.slice(start, start + maxCallSize));
      scores.push(...answers);
      queries += answers.length;
      onQueries(queries);
    }
    step = search.next(scores);
  }
  return step.value;
}
