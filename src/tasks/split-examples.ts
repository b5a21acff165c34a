import { computeDedupKey, hashToUnitInterval } from "./dedup-key.js";
import type { Example } from "./task.js";

/** How many of a class's examples a part takes: a share of them, at most so many over all classes together. */
export interface SplitPart {
  readonly fraction: number;
  readonly maxExamples?: number;
}

/**
 * Cuts examples into the named parts and the rest, class by class, so that every part has the whole's shares of the classes. Examples
 * with the same key always land together: a duplicate never straddles a cut. A key's place depends on a hash of it alone, so the
 * cut is the same in every run, whatever the seed. Every part keeps the file's order.
 */
export function splitExamples<Name extends string>(
  examples: readonly Example[],
  parts: Readonly<Record<Name, SplitPart>>,
  getKey: (example: Example) => string = (example) => computeDedupKey(example.texts),
): Record<Name | "rest", Example[]> {
  const groups = new Map<string, Example[]>();
  for (const example of examples) {
    const key = getKey(example);
    const group = groups.get(key);
    if (group) group.push(example);
    else groups.set(key, [example]);
  }
  const byClass = new Map<number, { place: number; members: Example[] }[]>();
  for (const [key, members] of groups) {
    // A text that stands under two labels goes with the label it has first.
    const label = members[0]!.label;
    if (!byClass.has(label)) byClass.set(label, []);
    byClass.get(label)!.push({ place: hashToUnitInterval(key), members });
  }

  const names = Object.keys(parts) as Name[];
  const home = new Map<Example, Name>();
  for (const classGroups of byClass.values()) {
    classGroups.sort((a, b) => a.place - b.place);
    const size = classGroups.reduce((sum, group) => sum + group.members.length, 0);
    let next = 0;
    for (const name of names) {
      const quota = computeQuota(parts[name], size, examples.length);
      for (let count = 0; count < quota && next < classGroups.length; next++) {
        const { members } = classGroups[next]!;
        for (const member of members) home.set(member, name);
        count += members.length;
      }
    }
  }

  const result = Object.fromEntries([...names, "rest"].map((name) => [name, [] as Example[]])) as Record<
    Name | "rest",
    Example[]
  >;
  for (const example of examples) result[home.get(example) ?? "rest"].push(example);
  return result;
}

function computeQuota(part: SplitPart, classSize: number, total: number): number {
  const fraction = part.maxExamples === undefined ? part.fraction : Math.min(part.fraction, part.maxExamples / total);
  // At least one of each class, as long as the class can spare one.
  return classSize < 3 ? 0 : Math.max(1, Math.round(classSize * fraction));
}
