import { homedir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { UserError } from "../errors.js";

/** The environment's settings, with the meaning that Python's huggingface_hub gives them. */
export interface HubSettings {
  readonly endpoint: string;
  readonly cache: string;
  readonly token: string | null;
  readonly offline: boolean;
}

/** Read anew at each call: a program may set them as it goes. */
export function readHubSettings(): HubSettings {
  const { env } = process;
  const home = env.HF_HOME || join(env.XDG_CACHE_HOME || join(homedir(), ".cache"), "huggingface");
  const endpoint = (env.HF_ENDPOINT || "https://huggingface.co").replace(/\/+$/, "");
  if (!/^https?:\/\//.test(endpoint) || !URL.canParse(endpoint)) {
    throw new UserError(
      `HF_ENDPOINT: expected an address such as https://huggingface.co, received ${JSON.stringify(endpoint)}`,
    );
  }
  return {
    endpoint,
    cache: env.HF_HUB_CACHE || env.HUGGINGFACE_HUB_CACHE || join(home, "hub"),
    token: env.HF_TOKEN?.trim() || null,
    offline: /^(1|on|yes|true)$/i.test(env.HF_HUB_OFFLINE ?? ""),
  };
}

/** A fetch that shows the token to the hub, and to nobody else. */
export function createHubFetch(settings: HubSettings): typeof fetch {
  return (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    const headers = new Headers(init?.headers);
    const isHub = url.origin === new URL(settings.endpoint).origin;
    if (settings.token !== null && isHub) headers.set("authorization", `Bearer ${settings.token}`);
    return fetch(url, { ...init, headers });
  };
}

/** What the library's questions need: it reads no environment, refuses tokens of other hubs, and has no time-out and no second try. */
export function createHubConnection(settings: HubSettings): { hubUrl: string; fetch: typeof fetch } {
  const ask = createHubFetch(settings);
  return {
    hubUrl: settings.endpoint,
    fetch: async (input, init) => {
      for (let tries = 1; ; tries++) {
        try {
          return await ask(input, { ...init, signal: AbortSignal.timeout(30_000) });
        } catch (error) {
          // A connection that was kept open may have been closed meanwhile; a time-out has waited long enough.
          if (tries === 3 || !(error instanceof TypeError)) throw error;
          await delay(100 * tries);
        }
      }
    },
  };
}
