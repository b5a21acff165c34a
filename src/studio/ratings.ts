import { createHash } from "node:crypto";
import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import type { Hono } from "hono";
import { z } from "zod";
import type { AttackResult } from "../attacks/result.js";
import { createFolder } from "../base/files.js";
import { groupBy } from "../base/group-by.js";
import { readJsonLines } from "../base/read-json.js";
import { Rng } from "../base/rng.js";
import { computeFleissKappa } from "../evaluation/rater-agreement.js";
import { wilsonInterval } from "../evaluation/statistics.js";
import { renderBlindTexts } from "../report/diff.js";
import { HttpError } from "../serve/http.js";
import type { MetricCell, RatingPair, RatingReport } from "./api.js";
import type { JournalSearch } from "./journal-search.js";
import type { RunCatalog } from "./run-catalog.js";
import { addRoute } from "./studio-app.js";

const ratingSchema = z.strictObject({
  rater: z.string().trim().min(1).max(100),
  pair: z.string(),
  sameMeaning: z.boolean(),
  firstGrammatical: z.boolean(),
  secondGrammatical: z.boolean(),
});
/** A line of the file of judgments: the texts have their roles again. */
const storedSchema = z.object({
  rater: z.string(),
  id: z.string(),
  sameMeaning: z.boolean(),
  originalGrammatical: z.boolean(),
  attackedGrammatical: z.boolean(),
});
type StoredRating = z.output<typeof storedSchema>;
const addSchema = z.strictObject({ id: z.string(), attack: z.string(), rating: ratingSchema });
const targetSchema = z.object({ id: z.string(), attack: z.string(), rater: z.string().max(100).default("") });

/** People's judgments of attacked texts, in one file per attack of a run. */
export class RatingStore {
  constructor(
    readonly folder: string,
    readonly journals: JournalSearch,
  ) {}

  /**
   * The pairs that a person has not judged yet, in an order of their own. Only texts that fooled
   * the model are judged. Which text is the original is not part of a pair.
   */
  async listPairs(run: string, attack: string, rater: string): Promise<RatingPair[]> {
    const judged = new Set((await this.#read(run, attack)).filter((each) => each.rater === rater).map(({ id }) => id));
    const results = (await this.#load(run, attack)).filter(({ id }) => !judged.has(id));
    return new Rng(0).fork("rating", rater).shuffle(results).map(createPair);
  }

  async add(run: string, attack: string, rating: z.output<typeof ratingSchema>): Promise<void> {
    const result = (await this.#load(run, attack)).find(({ id }) => id === rating.pair);
    if (!result) throw new HttpError(404, "There is no such pair.");
    const isOriginalFirst = showsOriginalFirst(result.id);
    const [first, second] = [rating.firstGrammatical, rating.secondGrammatical];
    const stored: StoredRating = {
      rater: rating.rater,
      id: result.id,
      sameMeaning: rating.sameMeaning,
      originalGrammatical: isOriginalFirst ? first : second,
      attackedGrammatical: isOriginalFirst ? second : first,
    };
    createFolder(this.folder);
    await appendFile(this.#path(run, attack), `${JSON.stringify(stored)}\n`);
  }

  /** Summarizes all judgments of an attack. A pair is valid if most of its raters say so. */
  async report(run: string, attack: string): Promise<RatingReport> {
    const ratings = await this.#read(run, attack);
    const pairs = groupBy(ratings, ({ id }) => id);
    const counts = [...pairs.values()].map((same) => {
      const yes = same.filter(({ sameMeaning }) => sameMeaning).length;
      return [yes, same.length - yes] as const;
    });
    const countTrue = (read: (rating: StoredRating) => boolean): MetricCell =>
      toCell(ratings.filter(read).length, ratings.length);
    return {
      ratings: ratings.length,
      raters: new Set(ratings.map(({ rater }) => rater)).size,
      pairs: pairs.size,
      validity: pairs.size === 0 ? null : toCell(counts.filter(([yes, no]) => yes > no).length, pairs.size),
      grammar:
        ratings.length === 0
          ? null
          : {
              original: countTrue(({ originalGrammatical }) => originalGrammatical),
              attacked: countTrue(({ attackedGrammatical }) => attackedGrammatical),
            },
      agreement: computeFleissKappa(counts),
    };
  }

  async #load(run: string, attack: string): Promise<AttackResult[]> {
    return (await this.journals.load(run, attack)).filter(({ outcome }) => outcome === "success");
  }

  /** The last judgment of a person on a pair counts. */
  async #read(run: string, attack: string): Promise<StoredRating[]> {
    const path = this.#path(run, attack);
    const all = await readJsonLines(path, storedSchema, "the judgments");
    return [...new Map(all.map((rating) => [JSON.stringify([rating.rater, rating.id]), rating])).values()];
  }

  #path(run: string, attack: string): string {
    const name = createHash("sha256")
      .update(JSON.stringify([run, attack]))
      .digest("hex")
      .slice(0, 16);
    return join(this.folder, `${name}.jsonl`);
  }
}

/** Half of the pairs show the original first. It does not depend on the person. */
function showsOriginalFirst(id: string): boolean {
  return createHash("sha256").update(`order ${id}`).digest()[0]! % 2 === 0;
}

function createPair(result: AttackResult): RatingPair {
  const { original, attacked } = renderBlindTexts(result);
  const [first, second] = showsOriginalFirst(result.id) ? [original, attacked] : [attacked, original];
  return { id: result.id, first: first.text, second: second.text };
}

function toCell(count: number, total: number): MetricCell {
  return { value: count / total, ...wilsonInterval(count, total), examples: total };
}

export function addRatingRoutes(app: Hono, ratings: RatingStore, catalog: RunCatalog): void {
  const findFolder = async (id: string): Promise<string> => (await catalog.getRow(id)).folder;
  addRoute(app, "ratings/pairs", targetSchema, async ({ id, attack, rater }) =>
    ratings.listPairs(await findFolder(id), attack, rater),
  );
  addRoute(app, "ratings", targetSchema, async ({ id, attack }) => ratings.report(await findFolder(id), attack));
  addRoute(app, "ratings/add", addSchema, async ({ id, attack, rating }) => {
    await ratings.add(await findFolder(id), attack, rating);
    return {};
  });
}
