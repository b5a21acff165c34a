import { createHash } from "node:crypto";
import { groupBy } from "../base/group-by.js";
import { normalizeUnicode } from "../text/normalize.js";
import type { Example } from "./example.js";

/** Removes case, punctuation and spacing. Texts that differ only in these count as duplicates. */
export function normalizeText(text: string): string {
  // ASCII texts have a fast path, several times as fast and with the same result.
  const words = isAscii(text)
    ? text.toLowerCase().replace(/[^a-z0-9]+/g, " ")
    : normalizeUnicode(text, "NFKC")
        .toLowerCase()
        .replace(/[^\p{L}\p{M}\p{N}]+/gu, " ");
  return words.trim() || text.trim();
}

function isAscii(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the range is all of ASCII
  return /^[\x00-\x7f]*$/.test(text);
}

export function computeDedupKey(texts: readonly string[]): string {
  return texts.map(normalizeText).sort().join("\n");
}

/** Hashes a key to a number in [0, 1) that is the same on every host and in every run. */
function hashToUnitInterval(key: string): number {
  const digest = createHash("sha256").update("temper split\n").update(key).digest();
  return digest.readUIntBE(0, 6) / 2 ** 48;
}

/**
 * Splits examples into the named parts and the rest. The split is stratified: every part has about
 * the same class distribution. Examples with the same key stay together, so duplicates never end
 * up in different parts. The split depends only on hashes of the keys, not on a seed, so it is the
 * same in every run. Every part keeps the order of the file.
 */
export function splitExamples<Name extends string>(
  examples: readonly Example[],
  parts: Readonly<Partial<Record<Name, { readonly fraction: number; readonly maxExamples?: number }>>>,
  getKey: (example: Example) => string = (example) => computeDedupKey(example.texts),
): Record<Name | "rest", Example[]> {
  const groups = groupBy(examples, getKey);
  // A text that occurs with two labels counts for the first one.
  const classes = groupBy([...groups], ([, members]) => members[0]!.label);
  const names = Object.keys(parts) as Name[];
  const assigned = new Map<Example, Name>();
  for (const classGroups of classes.values()) {
    const sorted = classGroups
      .map(([key, members]) => ({ position: hashToUnitInterval(key), members }))
      .sort((a, b) => a.position - b.position);
    const size = sorted.reduce((sum, group) => sum + group.members.length, 0);
    let next = 0;
    for (const name of names) {
      const quota = computeQuota(parts[name]!, size, examples.length);
      for (let count = 0; count < quota && next < sorted.length; next++) {
        const { members } = sorted[next]!;
        for (const member of members) assigned.set(member, name);
        count += members.length;
      }
    }
  }
  const result = Object.fromEntries([...names, "rest"].map((name) => [name, [] as Example[]]));
  for (const example of examples) result[assigned.get(example) ?? "rest"]!.push(example);
  return result as Record<Name | "rest", Example[]>;
}

function computeQuota(
  part: { readonly fraction: number; readonly maxExamples?: number },
  classSize: number,
  total: number,
): number {
  const fraction = part.maxExamples === undefined ? part.fraction : Math.min(part.fraction, part.maxExamples / total);
  // Take at least one example of each class, unless the class is too small to spare one.
  return classSize < 3 ? 0 : Math.max(1, Math.round(classSize * fraction));
}
