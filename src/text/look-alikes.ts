import { listConfusables } from "./confusables.js";

/** The characters that look like each ASCII character (UTS #39), in the order of their code points. */
export function listLookAlikes(): ReadonlyMap<string, readonly string[]> {
  const byTarget = new Map<string, string[]>();
  for (const [source, target] of listConfusables()) byTarget.set(target, [...(byTarget.get(target) ?? []), source]);
  return byTarget;
}
