/** The token of the address that `temper studio` printed. */
const token = new URLSearchParams(location.search).get("token") ?? "";

export interface ApiRequest {
  readonly path: string;
  readonly body?: unknown;
}

async function send({ path, body = {} }: ApiRequest, signal: AbortSignal | null = null): Promise<Response> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const response = await fetch(`/api/${path}`, { method: "POST", headers, body: JSON.stringify(body), signal });
  if (response.ok) return response;
  const { error } = (await response.json().catch(() => ({}))) as { error?: string };
  throw new Error(error ?? `The server answered with status ${response.status}.`);
}

export async function load<T>(request: ApiRequest, signal?: AbortSignal): Promise<T> {
  return (await send(request, signal)).json() as Promise<T>;
}

/** Reads server-sent events. `EventSource` could not send the token in a header. */
export async function* readEvents<T>(request: ApiRequest, signal: AbortSignal): AsyncGenerator<T> {
  const response = await send(request, signal);
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
