import { createHash } from "node:crypto";

// A page of the browser has its own version of this file (examples/browser/sha256.ts).

export function sha256(text: string): Uint8Array {
  return createHash("sha256").update(text).digest();
}

export function sha256Hex(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
