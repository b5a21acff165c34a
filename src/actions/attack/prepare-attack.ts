import { createHash } from "node:crypto";
import { join } from "node:path";
import type { ReadyAttack } from "../../attacks/define-attack.js";
import type { PredictProbabilities } from "../../attacks/function-victim.js";
import { equipAttack } from "../../attacks/load-attack.js";
import type { Constraint } from "../../attacks/protocol.js";
import type { AttackResources, ResourceName } from "../../attacks/resources.js";
import { createTransferAttack } from "../../attacks/transfer.js";
import { UserError } from "../../base/errors.js";
import { type Callbacks, warn } from "../../base/events.js";
import type { RunFolder } from "../../runs/run-folder.js";
import type { Example, Task } from "../../tasks/index.js";
import { looksEnglish } from "../../text/looks-english.js";
import { isEndpoint, type LoadedVictim } from "../load/load-victim.js";
import { type GivenExamples, type OpenVictim, openVictim } from "../load/open-victim.js";
import { checkDatasetPath } from "./attack-outputs.js";
import type { ParsedAttackRequest } from "./attack-request.js";
import { createRequestConstraints } from "./request-constraints.js";
import type { DrawnSample } from "./sample-attacked.js";

export function openAttackedVictim(
  model: string | PredictProbabilities | LoadedVictim,
  { windows, positiveLabel, calibrated, precision, ...request }: ParsedAttackRequest,
  { onEvent }: Callbacks,
): Promise<OpenVictim> {
  const guard = { windows, positiveLabel, calibrated };
  return openVictim({ ...request, model, guard, precision: precision ?? "auto", onEvent });
}

export async function prepareAttacks(
  request: ParsedAttackRequest,
  victim: OpenVictim,
  { labels, modifiableFields }: Pick<Task, "labels" | "modifiableFields">,
  callbacks: Callbacks,
): Promise<Pick<LoadedRequest, "attacks" | "resources" | "constraints">> {
  const needs: ResourceName[] = [];
  if (request.maxLikelihoodDrop !== null) needs.push("mlm");
  if (request.checks !== false) needs.push("gradient");
  const { attacks, resources } = await victim.loadAttacks(request.attacks, request, labels, needs);
  const constraints = createRequestConstraints(request, modifiableFields, resources);
  for (const { name, definition } of attacks)
    if (definition.optional?.includes("lmConstraint") && request.lmConstraint === null)
      warn(callbacks, `${name} runs without its language-model constraint. Pass --lm-constraint FILE to use one.`);
  return { attacks: attacks.map((attack) => equipAttack(attack, resources, constraints)), resources, constraints };
}

export interface LoadedRequest {
  readonly attacks: readonly ReadyAttack[];
  readonly resources: Partial<AttackResources>;
  readonly constraints: readonly Constraint[];
  readonly request: ParsedAttackRequest;
  readonly victim: OpenVictim;
  readonly task: Task;
  readonly examples: readonly Example[];
  readonly coverage: DrawnSample["coverage"];
  readonly out: string;
}

export async function prepareAttack(
  request: ParsedAttackRequest,
  victim: OpenVictim,
  callbacks: Callbacks,
  given: GivenExamples | null,
): Promise<LoadedRequest> {
  if (request.saveDataset !== null) checkDatasetPath(request.saveDataset);
  const sample = await victim.loadExamples(request, given);
  const out = request.out ?? getModelFolder("attacks", request.model, victim.local?.run ?? null);
  const prepared = await prepareAttacks(request, victim, sample.task, callbacks);
  const { examples, task } = sample;
  for (const { name, recipe } of prepared.attacks)
    if (examples.every(({ label }) => recipe.goal.attacksLabel?.(label) === false))
      throw new UserError(
        `--attack ${name}: all ${examples.length} texts have the label ${task.labels[examples[0]!.label]}, which the attack aims at. ` +
          "Name another one in its options (of guard: benignLabel=ham), or choose other texts with --attacked-label.",
      );
  warnOfEnglishResources(prepared, examples, callbacks);
  const attacks = [...prepared.attacks];
  for (const journal of request.transferFrom)
    attacks.push(await createTransferAttack(journal, examples, prepared.constraints));
  const names = attacks.map(({ name }) => name);
  const repeated = names.find((name, i) => names.indexOf(name) < i);
  if (repeated !== undefined)
    throw new UserError(
      `--attack ${repeated} is given twice, and both would write ${repeated}.jsonl. Use another --out for one.`,
    );
  return { ...prepared, ...sample, attacks, request, victim, out };
}

function warnOfEnglishResources(
  { resources }: Pick<LoadedRequest, "resources">,
  examples: readonly Example[],
  callbacks: Callbacks,
): void {
  const isWordNet =
    resources.wordnet ||
    [resources.substitutions, resources.neighbors].some((table) => /^wordnet\b/.test(table?.name ?? ""));
  if (isWordNet && !looksEnglish(examples.flatMap(({ texts }) => texts)))
    warn(
      callbacks,
      "WordNet is English, and the texts do not look English. Few of their words have substitutes, so the model seems more " +
        "robust than it is. Pass --substitutions FILE with a table of their language.",
    );
}

export function getModelFolder(kind: "attacks" | "exact", reference: string, run: RunFolder | null): string {
  if (run) return run.path(kind);
  // A URL can contain secrets, which must not become the name of a folder.
  if (isEndpoint(reference))
    return join(kind, `endpoint-${createHash("sha256").update(reference).digest("hex").slice(0, 12)}`);
  const name = reference
    .replace(/^npm:/, "")
    .replace(/[^\w.-]+/g, "-")
    .replace(/^[-.]+|-+$/g, "");
  return join(kind, name);
}
