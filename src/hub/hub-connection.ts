import { homedir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { getErrorMessage, UserError } from "../base/errors.js";
import { getErrorCode } from "../base/files.js";

/** A repository on the Hugging Face Hub. The revision (branch, tag, commit) defaults to "main". */
export interface HubRepo {
  readonly type: "model" | "dataset";
  readonly name: string;
  readonly revision?: string;
}

export function describeRepo({ type, name, revision }: HubRepo): string {
  return `${type} ${name}${revision === undefined ? "" : `@${revision}`}`;
}

export interface HubSettings {
  readonly endpoint: string;
  readonly cache: string;
  readonly token: string | null;
  readonly offline: boolean;
}

/** Reads the environment at each call, because a program may change it. */
export function readHubSettings(): HubSettings {
  const { env } = process;
  const home = env.HF_HOME || join(env.XDG_CACHE_HOME || join(homedir(), ".cache"), "huggingface");
  const endpoint = (env.HF_ENDPOINT || "https://huggingface.co").replace(/\/+$/, "");
  if (!/^https?:\/\//.test(endpoint) || !URL.canParse(endpoint)) {
    throw new UserError(
      `HF_ENDPOINT: expected a URL such as https://huggingface.co, received ${JSON.stringify(endpoint)}`,
    );
  }
  return {
    endpoint,
    cache: env.HF_HUB_CACHE || env.HUGGINGFACE_HUB_CACHE || join(home, "hub"),
    token: env.HF_TOKEN?.trim() || null,
    offline: /^(1|on|yes|true)$/i.test(env.HF_HUB_OFFLINE ?? ""),
  };
}

/** Returns true if nobody on the way can read the request: it is encrypted or stays on this host. */
function isPrivate({ protocol, hostname }: URL): boolean {
  return protocol === "https:" || /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
}

export function createHubFetch(settings: HubSettings): typeof fetch {
  return (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    const headers = new Headers(init?.headers);
    const isHub = url.origin === new URL(settings.endpoint).origin;
    if (settings.token !== null && isHub && isPrivate(url)) headers.set("authorization", `Bearer ${settings.token}`);
    return fetch(url, { ...init, headers });
  };
}

/** Adds to @huggingface/hub what it lacks: the environment, other hubs, timeouts and retries. */
export function createHubConnection(settings: HubSettings): { hubUrl: string; fetch: typeof fetch } {
  const hubFetch = createHubFetch(settings);
  return {
    hubUrl: settings.endpoint,
    fetch: async (input, init) => {
      for (let attempt = 1; ; attempt++) {
        try {
          return await hubFetch(input, { ...init, signal: AbortSignal.timeout(30_000) });
        } catch (error) {
          // A server may close an idle connection, so retry. Do not retry after a timeout.
          if (attempt === 3 || !(error instanceof TypeError)) throw error;
          await delay(100 * attempt);
        }
      }
    },
  };
}

function getHttpStatus(error: unknown): number | null {
  if (!(error instanceof Error)) return null;
  const status = "status" in error ? error.status : "statusCode" in error ? error.statusCode : null;
  return typeof status === "number" ? status : null;
}

/** True if the hub gave no valid response, because the network or the server failed. */
export function isUnreachable(error: unknown): boolean {
  const status = getHttpStatus(error);
  return status === null ? !(error instanceof UserError) : status >= 500 || status === 429 || status === 408;
}

export function explainHubFailure(error: unknown, repo: HubRepo, settings: HubSettings): UserError {
  if (error instanceof UserError) return error;
  const problem = `cannot download ${describeRepo(repo)} from ${settings.endpoint}`;
  return new UserError(`${problem}: ${describeFailure(error, settings)}`, { cause: error });
}

function describeFailure(error: unknown, settings: HubSettings): string {
  const status = getHttpStatus(error);
  switch (status) {
    case 401:
    case 403:
      if (settings.token !== null && !isPrivate(new URL(settings.endpoint)))
        return `access denied (${status}). HF_TOKEN is not sent over http. Set HF_ENDPOINT to an https address.`;
      return settings.token === null
        ? `access denied (${status}). The repository does not exist, or it is private or gated. ` +
            "Check the name, or set HF_TOKEN."
        : `access denied (${status}) with this HF_TOKEN. Check the name and the token, ` +
            "and that its owner has accepted the terms of the repository.";
    case 404:
      return "no such repository, revision or file (404). Check the name.";
    case 429:
      return "too many requests (429). Wait a few minutes and try again. Setting HF_TOKEN raises the limit.";
    case null:
      return (
        `${describeNetworkProblem(error)}. Check the network, set HF_ENDPOINT to a mirror, ` +
        "or pass a local folder. Downloaded data is kept."
      );
    default:
      return status >= 500
        ? `the server failed (${status}). Try again later. Downloaded data is kept.`
        : `unexpected response (${status}): ${getErrorMessage(error)}. Is HF_ENDPOINT correct?`;
  }
}

/** fetch() reports only "fetch failed"; the reason is in the cause. */
function describeNetworkProblem(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  const detail = getErrorCode(cause) ?? (cause instanceof Error ? cause.message : "");
  return `${getErrorMessage(error)}${detail === "" ? "" : ` (${detail})`}`;
}
