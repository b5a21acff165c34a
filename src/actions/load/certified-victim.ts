import { createHash } from "node:crypto";
import type { PreparedInput, Victim } from "../../attacks/victim.js";
import type { CertifiedModel, TextFields } from "../../proofs/certificates/index.js";

/** A text as its parts. */
interface PartsInput extends PreparedInput {
  readonly parts: readonly string[];
}

/** Scores of parts that are remembered. An edit of a text changes few of its parts. */
const maxCachedParts = 200_000;

/**
 * A model that classifies by parts of a text, as an attack sees it. `base` is the model that
 * classifies the parts. An attack must attack the model that is used, because certificates of the
 * vote say nothing about the base.
 */
export function createCertifiedVictim(
  base: Victim<PreparedInput>,
  model: CertifiedModel,
  unkToken: string,
): Victim<PartsInput> {
  const { name, numLabels, hashes, isDeterministic, maxBatchSize, maxBatchTokens } = base;
  const known = new Map<string, Float32Array>();
  return {
    ...{ name, numLabels, hashes, isDeterministic, maxBatchSize },
    ...(maxBatchTokens !== undefined && { maxBatchTokens }),
    hash: createHash("sha256")
      .update(JSON.stringify([base.hash, model.identity]))
      .digest("hex"),
    prepare(input) {
      const parts = model.split(input(unkToken)).map((part) => JSON.stringify(part));
      // About four characters per token.
      const length = Math.ceil(parts.reduce((sum, part) => sum + part.length, 0) / 4);
      return { parts, content: parts.join("\n"), length };
    },
    async probabilities(inputs) {
      const wanted = new Set(inputs.flatMap(({ parts }) => parts));
      const missing = [...wanted].filter((part) => !known.has(part));
      for (let start = 0; start < missing.length; start += base.maxBatchSize) {
        const chunk = missing.slice(start, start + base.maxBatchSize);
        const texts = chunk.map((part) => JSON.parse(part) as TextFields);
        const encode = (fields: TextFields): PreparedInput => base.prepare(() => fields);
        const prepared = base.prepareAll?.(texts.map((fields) => () => fields)) ?? texts.map(encode);
        const rows = await base.probabilities(prepared);
        for (const [i, part] of chunk.entries()) known.set(part, rows[i]!);
      }
      const scores = inputs.map(({ parts }) => {
        const rows = parts.map((part) => known.get(part)!);
        return Float32Array.from(model.score?.(rows) ?? model.answer(rows).probabilities);
      });
      // The oldest are forgotten first.
      for (const part of known.keys()) {
        if (known.size <= maxCachedParts) break;
        known.delete(part);
      }
      return scores;
    },
  };
}
