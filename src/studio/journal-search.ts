import { stat } from "node:fs/promises";
import { readJournal } from "../attacks/journal.js";
import type { AttackOutcome, AttackResult } from "../attacks/result.js";
import { groupRuns } from "../report/groups.js";
import { renderCards } from "../report/sections/examples.js";
import { findJournals, getJournalPath } from "../runs/attack-folder.js";
import { RunFolder } from "../runs/run-folder.js";
import { HttpError } from "../serve/http.js";
import type { TextsPage } from "./api.js";

export interface TextsQuery {
  /** Shows only texts that contain this, before or after the attack. */
  readonly search: string;
  readonly outcome: AttackOutcome | null;
  readonly limit: number;
}

/** Texts that fooled the model say most, so they come first. */
const outcomeOrder: readonly AttackOutcome[] = ["success", "failed", "skipped"];

export class JournalSearch {
  /** The last journal stays in memory, so that typing a search does not read it again. */
  #last: { readonly stamp: string; readonly results: readonly AttackResult[] } | null = null;

  async find(folder: string, attack: string, { search, outcome, limit }: TextsQuery): Promise<TextsPage> {
    const results = await this.load(folder, attack);
    const run = await RunFolder.open(folder);
    const labels = await run.labels();
    const [task] = groupRuns([{ run, results: null }]);
    const group = task!.baseline;
    const wanted = search.trim().toLowerCase();
    const contains = ({ id, texts, finalTexts }: AttackResult): boolean =>
      [id, ...texts, ...finalTexts].some((text) => text.toLowerCase().includes(wanted));
    const matching = results
      .filter((result) => (outcome === null || result.outcome === outcome) && contains(result))
      .sort((a, b) => outcomeOrder.indexOf(a.outcome) - outcomeOrder.indexOf(b.outcome));
    const examples = matching.slice(0, limit).map((result) => {
      return { attack, id: result.id, versions: [{ group, labels, result }] };
    });
    return { total: results.length, matching: matching.length, html: renderCards(examples).text };
  }

  async load(folder: string, attack: string): Promise<readonly AttackResult[]> {
    const journals = (await RunFolder.open(folder)).path("attacks");
    if (!(await findJournals(journals)).includes(attack))
      throw new HttpError(404, `The run has no journal of the attack ${attack.slice(0, 100)}.`);
    const path = getJournalPath(journals, attack);
    const { size, mtimeMs } = await stat(path);
    const stamp = `${path} ${size}@${mtimeMs}`;
    if (this.#last?.stamp === stamp) return this.#last.results;
    const results: AttackResult[] = [];
    for await (const { result } of readJournal(path)) results.push(result);
    this.#last = { stamp, results };
    return results;
  }
}
