import { createHash } from "node:crypto";

/** A text without case, punctuation and spacing: two texts that differ only in those count as the same text. */
export function normalizeText(text: string): string {
  // Most English texts are ASCII, for which the general way is several times slower and the same.
  const words = isAscii(text)
    ? text.toLowerCase().replace(/[^a-z0-9]+/g, " ")
    : text
        .normalize("NFKC")
        .toLowerCase()
        .replace(/[^\p{L}\p{M}\p{N}]+/gu, " ");
  return words.trim() || text.trim();
}

function isAscii(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII is meant
  return /^[\x00-\x7f]*$/.test(text);
}

/** What makes two examples duplicates: the same normalised texts, in either order for a pair. */
export function computeDedupKey(texts: readonly string[]): string {
  return texts.map(normalizeText).sort().join("\n");
}

/** A key's fixed place in [0, 1): the same on every machine and in every run. */
export function hashToUnitInterval(key: string): number {
  const digest = createHash("sha256").update("temper split\n").update(key).digest();
  return digest.readUIntBE(0, 6) / 2 ** 48;
}
