import { createHash } from "node:crypto";
import type { Victim } from "../../attacks/victim.js";
import type { Model } from "../../models/index.js";
import { predictByParts } from "../../models/inference/predict-by-parts.js";
import type { Identified } from "../../models/inference/predictor.js";
import type { CertifiedModel } from "../../proofs/certificates/index.js";

/**
 * A model that classifies by parts of a text, as an attack sees it. `base` is the model that
 * classifies the parts. An attack must attack the model that is used, because certificates of the
 * vote say nothing about the base.
 */
export function createCertifiedVictim(
  base: Victim & Identified,
  { identity, split, score, answer }: CertifiedModel,
  { tokenizer }: Pick<Model, "tokenizer">,
): Victim & Identified {
  const [unkToken] = tokenizer.idsToTokens([tokenizer.special.unkId]) as [string];
  return {
    ...predictByParts(base, {
      split,
      combine: (rows) => ({ probabilities: Float32Array.from(score?.(rows) ?? answer(rows).probabilities) }),
    }),
    unkToken,
    hash: createHash("sha256")
      .update(JSON.stringify([base.hash, identity]))
      .digest("hex"),
    hashes: base.hashes,
    isDeterministic: base.isDeterministic,
  };
}
