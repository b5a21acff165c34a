import { dirname } from "node:path";
import { type ControlAttack, changeRandomly, followGradients, reduceBudget } from "../../attacks/controls.js";
import type { ReadyAttack } from "../../attacks/define-attack.js";
import type { SearchPool } from "../../attacks/pool.js";
import { createFolder } from "../../base/files.js";
import type { ControlKind } from "../../evaluation/attack-checks.js";
import type { JournalSummary } from "../../evaluation/attack-summary.js";
import { getControlPath, removeControls } from "../../runs/attack-folder.js";
import type { Example } from "../../tasks/index.js";
import { findWords } from "../../text/find-words.js";
import { type AttackCallbacks, readBudget } from "./attack-request.js";
import type { LoadedRequest } from "./prepare-attack.js";
import { runJournal } from "./run-journal.js";

/** Texts that an attack is checked on: enough for a sign test, few enough to be cheap. */
const maxControlTexts = 20;

/** Attacks some of the texts again, so that the attack can be checked (`checkAttack`). */
export async function runControls(
  prepared: LoadedRequest,
  pool: SearchPool,
  ready: ReadyAttack,
  journal: JournalSummary,
  callbacks: AttackCallbacks,
): Promise<void> {
  const { request, out } = prepared;
  // Without a budget, that of the controls depends on all texts.
  if (!request.resume || readBudget(request).budget === undefined) await removeControls(out, ready.name);
  if (!(request.checks ?? ready.isChecked)) return;
  const examples = selectAttacked(prepared.examples, journal);
  if (examples.length === 0) return;
  for (const [kind, { attack, budget }] of listControls(prepared, ready, journal, examples)) {
    const path = getControlPath(out, ready.name, kind);
    createFolder(dirname(path));
    await runJournal(prepared, pool, attack, callbacks, {
      ...{ examples, path, budget, isShard: true, settings: { control: kind } },
      stage: `check ${ready.name} (${kind})`,
    });
  }
}

function selectAttacked(examples: readonly Example[], { results, target }: JournalSummary): Example[] {
  const attacked = new Set(
    results.filter(({ label, outcome }) => outcome !== "skipped" && label !== target).map(({ id }) => id),
  );
  return examples.filter(({ id }) => attacked.has(id)).slice(0, maxControlTexts);
}

function listControls(
  { request, resources }: LoadedRequest,
  ready: ReadyAttack,
  { maxQueries }: JournalSummary,
  examples: readonly Example[],
): [ControlKind, ControlAttack][] {
  // Without a budget, the others may ask as often as the attack did.
  const { budget = maxQueries } = readBudget(request);
  const longest = Math.max(...examples.map(({ texts }) => findWords(texts.join("\n")).length));
  const controls: Readonly<Record<ControlKind, ControlAttack | null>> = {
    "smaller-budget": reduceBudget(ready, budget),
    random: changeRandomly(ready, budget, longest),
    "white-box": followGradients(ready, budget, resources.gradient),
  };
  return (Object.entries(controls) as [ControlKind, ControlAttack | null][]).flatMap(([kind, control]) =>
    control ? [[kind, control]] : [],
  );
}
