import { randomUUID } from "node:crypto";
import type { MiddlewareHandler } from "hono";

export interface LoggedRequest {
  readonly time: string;
  /** The client's `x-request-id`, or a random one. The response has the same. */
  readonly id: string;
  readonly method: string;
  readonly route: string;
  readonly status: number;
  readonly milliseconds: number;
  /** The number of texts, if the request had any. */
  readonly texts?: number;
}

const idPattern = /^[\w.:-]{1,128}$/;
const countHeader = "x-text-count";

/**
 * Gives each request an ID and reports it when its response is ready. `routes` are the known ones.
 */
export function createRequestLog(
  routes: readonly string[],
  report: (request: LoggedRequest) => void,
): MiddlewareHandler {
  return async (context, next) => {
    const started = performance.now();
    const given = context.req.header("x-request-id") ?? "";
    const id = idPattern.test(given) ? given : randomUUID();
    await next();
    const texts = context.res.headers.get(countHeader);
    context.res.headers.delete(countHeader);
    context.res.headers.set("x-request-id", id);
    report({
      time: new Date().toISOString(),
      id,
      method: context.req.method,
      // Paths that do not exist would be time series without bounds.
      route: routes.includes(context.req.path) ? context.req.path : "other",
      status: context.res.status,
      milliseconds: Math.round((performance.now() - started) * 10) / 10,
      ...(texts !== null && { texts: Number(texts) }),
    });
  };
}

export function noteTextCount(context: { header(name: string, value: string): void }, count: number): void {
  context.header(countHeader, String(count));
}
