import { createHash } from "node:crypto";

const checksum = /,"checksum":"([0-9a-f]{32})"\}$/;

/** The lines of a journal without their checksums. */
export function unseal(text: string): Record<string, unknown>[] {
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line.replace(checksum, "}")) as Record<string, unknown>);
}

/** Gives lines new checksums that match, as somebody who forges a journal would. */
export function seal(bodies: readonly string[]): string {
  let previous = "";
  return bodies
    .map((text) => {
      const body = text.slice(0, -1);
      previous = createHash("sha256").update(previous).update(body).digest("hex").slice(0, 32);
      return `${body},"checksum":"${previous}"}\n`;
    })
    .join("");
}
