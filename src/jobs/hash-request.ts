import { createHash } from "node:crypto";
import { basename } from "node:path";
import { formatConfigIdentity } from "../settings/config-identity.js";
import type { WorkRequest } from "./work-request.js";

/** Keys that say where and how a request runs, not what it computes. */
const nonIdentityKeys = new Set(["device", "threads", "out", "resume", "concurrency", "cache", "result"]);

/**
 * SHA-256 of everything that decides the result of a request. A sweep folder can move, so runs
 * count by name.
 */
export function hashRequest(request: WorkRequest): string {
  const config = request.kind === "train" ? request.config : null;
  const identity = config ? formatConfigIdentity(config) : sortKeys(request);
  return createHash("sha256")
    .update(JSON.stringify([request.kind, identity]))
    .digest("hex");
}

/**
 * Plain data with sorted keys, without the keys that do not count. Run folders are replaced by
 * their names.
 */
function sortKeys(value: unknown, key = ""): unknown {
  if (typeof value === "string") return key === "model" || key === "runs" ? basename(value) : value;
  if (Array.isArray(value)) return value.map((each) => sortKeys(each, key));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).filter(([name, each]) => !nonIdentityKeys.has(name) && each !== undefined);
  return Object.fromEntries(
    entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, each]) => [name, sortKeys(each, name)]),
  );
}
