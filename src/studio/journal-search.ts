import { stat } from "node:fs/promises";
import { readJournal } from "../attacks/journal.js";
import type { AttackOutcome, AttackResult } from "../attacks/result.js";
import { splitChangedText } from "../evaluation/changed-text.js";
import { findJournals, getJournalPath } from "../runs/attack-folder.js";
import { RunFolder } from "../runs/run-folder.js";
import { HttpError } from "../serve/http.js";
import type { DiffPiece, JournalText, TextsPage } from "./api.js";

export interface TextsQuery {
  /** Shows only texts that contain this, before or after the attack. */
  readonly search: string;
  readonly outcome: AttackOutcome | null;
  readonly offset: number;
  readonly limit: number;
}

interface LoadedJournal {
  readonly stamp: string;
  readonly results: readonly AttackResult[];
  /** Everything that a search looks at, in lower case. */
  readonly haystacks: readonly string[];
}

/** Texts that fooled the model say most, so they come first. */
const outcomeOrder: readonly AttackOutcome[] = ["success", "failed", "skipped"];

/** Journals that stay in memory, so that typing a search does not read them again. */
const maxJournals = 3;

/** Reads and searches the journals of attacks. */
export class JournalSearch {
  readonly #loaded = new Map<string, LoadedJournal>();

  async find(folder: string, attack: string, { search, outcome, offset, limit }: TextsQuery): Promise<TextsPage> {
    const { results, haystacks } = await this.load(folder, attack);
    const wanted = search.trim().toLowerCase();
    const matching = results
      .filter((result, i) => (outcome === null || result.outcome === outcome) && haystacks[i]!.includes(wanted))
      .sort((a, b) => outcomeOrder.indexOf(a.outcome) - outcomeOrder.indexOf(b.outcome));
    return {
      total: results.length,
      matching: matching.length,
      texts: matching.slice(offset, offset + limit).map(toAttackedText),
    };
  }

  /** The results of one attack on a run. */
  async load(folder: string, attack: string): Promise<LoadedJournal> {
    const journals = (await RunFolder.open(folder)).path("attacks");
    if (!(await findJournals(journals)).includes(attack))
      throw new HttpError(404, `The run has no journal of the attack ${attack.slice(0, 100)}.`);
    const path = getJournalPath(journals, attack);
    const { size, mtimeMs } = await stat(path);
    const stamp = `${size}@${mtimeMs}`;
    const known = this.#loaded.get(path);
    if (known?.stamp === stamp) return known;
    const results: AttackResult[] = [];
    for await (const { result } of readJournal(path)) results.push(result);
    const haystacks = results.map(({ id, texts, finalTexts }) =>
      `${id}\n${texts.join("\n")}\n${finalTexts.join("\n")}`.toLowerCase(),
    );
    const loaded = { stamp, results, haystacks };
    this.#loaded.delete(path);
    this.#loaded.set(path, loaded);
    for (const oldest of this.#loaded.keys()) if (this.#loaded.size > maxJournals) this.#loaded.delete(oldest);
    return loaded;
  }
}

export function toAttackedText(result: AttackResult): JournalText {
  const { id, label, outcome, queries, before, after, edits } = result;
  return { id, label, outcome, queries, before, after, edits, fields: toDiff(result) };
}

/** The final texts in pieces. Neighboring pieces without changes are one. */
function toDiff(result: AttackResult): DiffPiece[][] {
  const { fields, changed, getOriginal } = splitChangedText(result);
  return fields.map((pieces) => {
    const merged: DiffPiece[] = [];
    for (const { text, word } of pieces) {
      const last = merged.at(-1);
      // An inserted word was nothing before.
      if (word !== null && changed.has(word)) merged.push({ text, was: getOriginal(word) ?? "" });
      else if (last && last.was === undefined) merged[merged.length - 1] = { text: last.text + text };
      else merged.push({ text });
    }
    return merged;
  });
}
