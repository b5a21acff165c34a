import { isUtf8 } from "node:buffer";

/**
 * Checks a character map of SentencePiece. It is a trie (a double array of 32-bit units) from UTF-8
 * sequences to positions in a text of replacements that end with a zero byte. The package follows
 * the trie without checks, so every unit that it can reach must be inside the array. Returns the
 * problem, or null.
 */
export function checkCharsmap(bytes: Buffer): string | null {
  const damaged = "the character map is damaged. Download the file again.";
  if (bytes.length < 4) return damaged;
  const trieSize = bytes.readUInt32LE(0);
  if (trieSize === 0 || trieSize % 4 !== 0 || 4 + trieSize > bytes.length) return damaged;
  const units = new Uint32Array(bytes.buffer.slice(bytes.byteOffset + 4, bytes.byteOffset + 4 + trieSize));
  const replacements = bytes.subarray(4 + trieSize);
  if (!isUtf8(replacements)) return damaged;
  // The top bits 10 mark a byte that continues a character.
  const isStart = (index: number): boolean => index <= replacements.length && (replacements[index] ?? 0) >> 6 !== 0b10;

  const visited = new Uint8Array(units.length);
  const open = [getOffset(units[0]!)];
  while (open.length > 0) {
    const node = open.pop()!;
    // A node visits the units node ^ 1 to node ^ 255: all of its block of 256.
    if (node >= units.length || (node | 255) >= units.length) return damaged;
    if (visited[node]) continue;
    visited[node] = 1;
    for (let label = 1; label < 256; label++) {
      const unit = units[node ^ label]!;
      if ((unit & 0x800000ff) >>> 0 !== label) continue;
      const next = node ^ label ^ getOffset(unit);
      const hasLeaf = ((unit >>> 8) & 1) === 1;
      if (hasLeaf && (next >= units.length || !isStart(units[next]! & 0x7fffffff))) return damaged;
      open.push(next);
    }
  }
  return null;
}

function getOffset(unit: number): number {
  return ((unit >>> 10) << ((unit & 0x200) >>> 6)) >>> 0;
}
