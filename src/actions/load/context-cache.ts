import { join } from "node:path";
import type { SentenceEncoder } from "../../attacks/resources.js";
import { getCacheFolder } from "../../base/cache.js";
import { openResultCache, type ResultCache } from "../../base/result-cache.js";

/** The similarities of substitutes in context that earlier attacks computed with an encoder. */
export function openContextCache({ hash }: SentenceEncoder): ResultCache<readonly number[]> | undefined {
  try {
    return openResultCache(join(getCacheFolder(), "context-substitutes", `${hash}.jsonl`));
  } catch {
    // Without a writable cache folder, the similarities are computed every time.
    return undefined;
  }
}
