import { join } from "node:path";
import { z } from "zod";
import type { AttackResult } from "../../attacks/result.js";
import { UserError } from "../../base/errors.js";
import { type Callbacks, warn } from "../../base/events.js";
import { exists, readJson } from "../../base/files.js";
import { findOrInstallDemo } from "../../base/find-package.js";
import { Rng } from "../../base/rng.js";
import { seedSchema, validate } from "../../base/validate.js";
import { openSpamEmails } from "../../tasks/spam.js";
import { createTextAttacker, type TextAttacker, type WatchedResult } from "../attack/attack-text.js";

export const tryRequestSchema = z.strictObject({
  seed: seedSchema.default(0).describe("random seed of the order of the emails: another one finds another email"),
});
export type TryRequest = z.input<typeof tryRequestSchema>;

export interface TellingEmail {
  readonly id: string;
  readonly labels: readonly string[];
  readonly attack: string;
  readonly tried: number;
  /** The time of the search, without the installation of temper-nlp-demo. */
  readonly seconds: number;
  readonly standard: AttackResult;
  readonly robust: AttackResult;
}

/** A reader sees a few changes at a glance. The robust filter resists any number of them. */
const maxChanges = 3;

/** The attack of the demo. WordNet's synonyms need no other model, so neither does libtorch. */
const attack = { attacks: ["pwws" as const], substitutions: "wordnet", minContextSimilarity: -1 };

/**
 * Attacks the two small filters of temper-nlp-demo on spam that neither was trained on, until an
 * email fools only the standard one. If the package is missing, npm installs it. Runs on ONNX
 * Runtime.
 *
 *     const { standard, robust } = await findTellingEmail();
 *     console.log(standard.finalTexts, robust.outcome); // "failed": it resisted
 */
export async function findTellingEmail(request: TryRequest = {}, callbacks: Callbacks = {}): Promise<TellingEmail> {
  const { seed } = validate(tryRequestSchema, request, "try");
  const demo = await findOrInstallDemo((name) =>
    warn(callbacks, `${name} is not installed. npm downloads it, only once.`),
  );
  const start = performance.now();
  const folder = join(demo, "filters");
  if (!(await exists(folder)))
    throw new UserError(`${demo} has no filters. Install the newest version: npm install temper-nlp-demo@latest`);
  const ids = (await readJson(join(folder, "emails.json"), "the list of emails")) as string[];
  const readEmail = await openSpamEmails();
  const opened: TextAttacker[] = [];
  const openFilter = async (name: string): Promise<(text: string) => Promise<WatchedResult>> => {
    const attacker = await createTextAttacker({ model: join(folder, name), device: "cpu", ...attack }, callbacks);
    opened.push(attacker);
    return async (text) => (await attacker.attack([text], { label: "spam" }))[0]!;
  };
  try {
    const attackStandard = await openFilter("standard");
    const attackRobust = await openFilter("robust");
    for (const [i, id] of new Rng(seed).fork("emails").shuffle(ids).entries()) {
      callbacks.signal?.throwIfAborted();
      const text = await readEmail(id);
      const { result: standard, labels, attack: name } = await attackStandard(text);
      if (standard.outcome !== "success" || standard.edits.length > maxChanges) continue;
      const { result: robust } = await attackRobust(text);
      const seconds = (performance.now() - start) / 1000;
      if (robust.outcome === "failed") return { id, labels, attack: name, tried: i + 1, seconds, standard, robust };
    }
  } finally {
    for (const attacker of opened) attacker.close();
  }
  throw new UserError(`None of ${ids.length} emails fooled only the standard filter of ${folder}.`);
}
