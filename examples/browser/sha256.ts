import { sha256 as compute } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";

// The browser has no synchronous SHA-256. It names the random streams of an attack.

export function sha256(text: string): Uint8Array {
  return compute(utf8ToBytes(text));
}

export function sha256Hex(text: string): string {
  return bytesToHex(sha256(text));
}
