import type { Context } from "hono";
import { streamSSE } from "hono/streaming";

/** Messages that may wait for a slow page before it is disconnected. It then connects again. */
const maxWaiting = 10_000;
const heartbeatMilliseconds = 10_000;

/** Sends messages to every open page as server-sent events. */
export class LiveStream<Message> {
  readonly #clients = new Set<(message: Message | null) => void>();

  get hasClients(): boolean {
    return this.#clients.size > 0;
  }

  send(message: Message): void {
    for (const deliver of this.#clients) deliver(message);
  }

  /** Disconnects every page. */
  close(): void {
    for (const deliver of this.#clients) deliver(null);
  }

  /** Answers a request with a stream: first the present state, then every message. */
  connect(context: Context, state: () => readonly Message[]): Response {
    return streamSSE(context, async (stream) => {
      const waiting: (Message | null)[] = [...state()];
      let wake = (): void => undefined;
      const deliver = (message: Message | null): void => {
        waiting.push(waiting.length > maxWaiting ? null : message);
        wake();
      };
      this.#clients.add(deliver);
      stream.onAbort(() => deliver(null));
      const timer = setInterval(() => void stream.write(":\n\n"), heartbeatMilliseconds);
      try {
        for (;;) {
          const message = waiting.shift();
          if (message === null) return;
          if (message !== undefined) await stream.writeSSE({ data: JSON.stringify(message) });
          else
            await new Promise<void>((resolve) => {
              wake = resolve;
            });
        }
      } finally {
        clearInterval(timer);
        this.#clients.delete(deliver);
      }
    });
  }
}
