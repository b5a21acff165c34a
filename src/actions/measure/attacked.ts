import { type AttackFolder, readAttackFolder } from "../../runs/attack-folder.js";
import { attack } from "../attack/attack.js";
import type { AttackCallbacks } from "../attack/attack-request.js";
import type { GivenExamples } from "../load/open-victim.js";

/** Attacks a model and reads what the journals say. audit, gate and harden have their numbers from here. */
export async function measureAttacks(
  request: Parameters<typeof attack>[0] & { readonly out: string },
  callbacks: AttackCallbacks,
  given: GivenExamples | null = null,
): Promise<AttackFolder> {
  await attack(request, callbacks, given);
  return readAttackFolder(request.out);
}
