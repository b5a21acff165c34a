import { didYouMean } from "../../base/did-you-mean.js";
import { UserError } from "../../base/errors.js";
import { canonical } from "./canonical.js";
import type { CertificateDefinition } from "./define-certificate.js";
import { hashVote } from "./hash-vote.js";
import { windows } from "./windows.js";

const builtIn: readonly CertificateDefinition[] = [hashVote, canonical, windows];

export const certificates: ReadonlyMap<string, CertificateDefinition> = new Map(
  builtIn.map((definition) => [definition.name, definition]),
);

export function findCertificate(name: string, location: string): CertificateDefinition {
  const found = certificates.get(name);
  if (found) return found;
  const names = [...certificates.keys()];
  throw new UserError(
    `${location}: unknown certificate ${JSON.stringify(name)}${didYouMean(name, names)}. Use one of ${names.join(", ")}.`,
  );
}
