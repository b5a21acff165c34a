import type { Attack } from "../../attacks/define-attack.js";
import type { PredictProbabilities } from "../../attacks/function-victim.js";
import { listResources, loadAttack } from "../../attacks/load-attack.js";
import type { AttackResources, ResourceName } from "../../attacks/resources.js";
import { UserError } from "../../base/errors.js";
import { checkLabels } from "../../models/index.js";
import type { DataRequest } from "../../settings/config.js";
import type { Example, Task } from "../../tasks/index.js";
import { type DrawnSample, sampleAttacked } from "../attack/sample-attacked.js";
import { loadAttackResources, type WantedResources } from "./load-resources.js";
import { loadRequestedTask } from "./load-task.js";
import { type LoadedVictim, type LoadVictimOptions, loadVictim } from "./load-victim.js";

export interface GivenExamples {
  readonly task: Task;
  readonly examples: readonly Example[];
}

export interface OpenVictim extends LoadedVictim, AsyncDisposable {
  checkTask(task: Pick<Task, "name" | "labels">): void;
  loadTask(request: DataRequest): Promise<Task>;
  loadExamples(
    request: DataRequest & Parameters<typeof sampleAttacked>[1],
    given: GivenExamples | null,
  ): Promise<DrawnSample & { readonly task: Task }>;
  loadAttacks(
    specs: readonly Parameters<typeof loadAttack>[0][],
    request: WantedResources,
    labels: readonly string[],
    needs?: readonly ResourceName[],
  ): Promise<{ readonly attacks: readonly Attack[]; readonly resources: Partial<AttackResources> }>;
}

/** The labels of an endpoint can have other names, but classes must tell their order. */
function checkEndpointLabels(name: string, labels: readonly string[], task: Pick<Task, "name" | "labels">): void {
  if (labels.length === task.labels.length && labels.every((label, i) => label === task.labels[i])) return;
  throw new UserError(
    `${name} answers with the labels ${labels.join(", ")}, but ${task.name} has ${task.labels.join(", ")}. ` +
      "Name those of the endpoint in the order of the task's: --endpoint classes=LABEL,LABEL",
  );
}

/**
 * Opens a model (a folder, npm:PACKAGE, a Hugging Face model ID, a URL or a function).
 *
 *     await using victim = await openVictim({ model: "runs/reviews", precision: "fp32" });
 *     const { task, examples } = await victim.loadExamples(request, null);
 *     const { attacks, resources } = await victim.loadAttacks(["pwws"], request, task.labels);
 */
export async function openVictim({
  model,
  ...options
}: LoadVictimOptions & {
  readonly model: string | PredictProbabilities | LoadedVictim;
}): Promise<OpenVictim> {
  const loaded = typeof model === "object" ? model : await loadVictim(model, options);
  const { victim, local } = loaded;
  const closers = [loaded.close];
  const close = (): void => {
    for (let closer = closers.pop(); closer; closer = closers.pop()) closer();
  };
  const opened: OpenVictim = {
    ...loaded,
    close,
    [Symbol.asyncDispose]: async () => close(),
    checkTask(task) {
      if (local) checkLabels(loaded.name, local.model.labels, task.labels, task.name);
      else if (loaded.labels) checkEndpointLabels(loaded.name, loaded.labels, task);
      if (victim.numLabels !== task.labels.length)
        throw new UserError(
          `${victim.name} returns ${victim.numLabels} probabilities, but ${task.name} has ` +
            `${task.labels.length} labels (${task.labels.join(", ")}). Use a model of this task.`,
        );
    },
    async loadTask(request) {
      const known = local?.model ?? (loaded.labels ? { task: null, labels: loaded.labels } : null);
      const task = await loadRequestedTask(request, known, local?.run ?? null, options);
      opened.checkTask(task);
      return task;
    },
    async loadExamples(request, given) {
      if (given) opened.checkTask(given.task);
      const task = given?.task ?? (await opened.loadTask(request));
      return { task, ...(given ? { examples: given.examples, coverage: null } : await sampleAttacked(task, request)) };
    },
    async loadAttacks(specs, request, labels, needs = []) {
      const attacks: Attack[] = [];
      for (const spec of specs) attacks.push(await loadAttack(spec));
      const all = [...attacks.flatMap(listResources), ...needs];
      const { resources, close: closeResources } = await loadAttackResources(all, request, loaded, labels, options);
      closers.push(closeResources);
      return { attacks, resources };
    },
  };
  return opened;
}
