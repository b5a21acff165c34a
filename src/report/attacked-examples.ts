import { readJournal } from "../attacks/journal.js";
import type { AttackResult } from "../attacks/result.js";
import type { JournalSummary } from "../evaluation/attack-summary.js";
import type { RunGroup, TaskGroups } from "./groups.js";

/** What one model made of an attacked example. */
export interface ModelAttackResult {
  readonly group: RunGroup;
  readonly labels: readonly string[];
  readonly result: AttackResult;
}

/** One example under one attack, as every model saw it. */
export interface AttackedExample {
  readonly attack: string;
  readonly id: string;
  readonly versions: readonly ModelAttackResult[];
}

/** Kinds of examples by what became of them, and how many of each the report shows for an attack. */
const maxExamplesPerKind = { differ: 16, success: 8, failed: 8, skipped: 4 } as const;
type ExampleKind = keyof typeof maxExamplesPerKind;
/** More columns than this nobody compares. */
const maxGroups = 6;

/** A readable selection of attacked examples. Journals may be far larger than memory, so their texts are read for the chosen ones only. */
export async function selectExamples({ groups }: TaskGroups): Promise<AttackedExample[]> {
  const attacks = new Set(groups.flatMap(({ runs: [run] }) => [...(run?.attacks.journals.keys() ?? [])]));
  const chosen: AttackedExample[] = [];
  for (const attack of attacks) {
    const attacked = groups
      .flatMap((group) => {
        const [run] = group.runs;
        const read = run?.attacks.journals.get(attack);
        return run && read ? [{ group, labels: run.labels, read }] : [];
      })
      .slice(0, maxGroups);
    const ids = selectExampleIds(attacked.map(({ read }) => read));
    const versions = new Map<string, ModelAttackResult[]>([...ids].map((id) => [id, []]));
    for (const { group, labels, read } of attacked) {
      for await (const { result } of readJournal(read.path)) versions.get(result.id)?.push({ group, labels, result });
    }
    chosen.push(...[...versions].map(([id, all]) => ({ attack, id, versions: all })));
  }
  return chosen;
}

/** Some of every kind, those first on which the models differ: they show what robustness buys. */
function selectExampleIds(reads: readonly JournalSummary[]): Set<string> {
  const outcomes = new Map<string, Set<AttackResult["outcome"]>>();
  for (const { results } of reads) {
    for (const { id, outcome } of results) outcomes.set(id, (outcomes.get(id) ?? new Set()).add(outcome));
  }
  const kinds: Record<ExampleKind, string[]> = { differ: [], success: [], failed: [], skipped: [] };
  for (const [id, found] of outcomes) kinds[found.size > 1 ? "differ" : ([...found][0] as ExampleKind)].push(id);
  // A text on which one held and another fell tells more than one that was misread from the start.
  const tells = (id: string): number => Number(outcomes.get(id)!.has("success") && outcomes.get(id)!.has("failed"));
  kinds.differ.sort((a, b) => tells(b) - tells(a));
  return new Set(
    (Object.keys(maxExamplesPerKind) as ExampleKind[]).flatMap((kind) =>
      kinds[kind].slice(0, maxExamplesPerKind[kind]),
    ),
  );
}
