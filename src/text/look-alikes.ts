import { confusables } from "./confusables.js";

/** The characters that look like each ASCII character (UTS #39), in the order of their code points. */
export function listLookAlikes(): ReadonlyMap<string, readonly string[]> {
  const byTarget = new Map<string, string[]>();
  for (const [source, target] of confusables) byTarget.set(target, [...(byTarget.get(target) ?? []), source]);
  for (const sources of byTarget.values()) sources.sort((a, b) => a.codePointAt(0)! - b.codePointAt(0)!);
  return byTarget;
}
