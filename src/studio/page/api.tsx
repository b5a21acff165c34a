/** The token of the address that `temper studio` printed. */
const token = new URLSearchParams(location.search).get("token") ?? "";

const headers = { authorization: `Bearer ${token}` };

/** An answer of the server that is not a success. */
class ApiError extends Error {}

async function check(response: Response): Promise<Response> {
  if (response.ok) return response;
  const { error } = (await response.json().catch(() => ({}))) as { error?: string };
  throw new ApiError(error ?? `The server answered with status ${response.status}.`);
}

export async function get<T>(path: string, query: Readonly<Record<string, string | number>> = {}): Promise<T> {
  const search = new URLSearchParams(Object.entries(query).map(([key, value]) => [key, String(value)]));
  return (await check(await fetch(`/api/${path}?${search}`, { headers }))).json() as Promise<T>;
}

function send(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  return fetch(`/api/${path}`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  });
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return (await check(await send(path, body, signal))).json() as Promise<T>;
}

/** Reads server-sent events. `EventSource` could not send the token in a header. */
export async function* readEvents<T>(path: string, signal: AbortSignal, body?: unknown): AsyncGenerator<T> {
  const response = await check(
    body === undefined ? await fetch(`/api/${path}`, { headers, signal }) : await send(path, body, signal),
  );
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop()!;
    for (const event of events) {
      const data = event.split("\n").filter((line) => line.startsWith("data:"));
      if (data.length > 0) yield JSON.parse(data.map((line) => line.slice(5)).join("\n")) as T;
    }
  }
}

export function getMessage(error: unknown): string {
  if (error instanceof TypeError) return "The studio does not answer. Start it again with temper studio.";
  return error instanceof Error ? error.message : String(error);
}
