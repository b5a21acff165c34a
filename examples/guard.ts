/**
 * A guard in front of a language model: in a web server, in the AI SDK, and in traces. None of these packages is needed
 * to run the guard.
 *
 *     npx temper calibrate runs/guard --benign benign.txt --fpr 0.01
 *     npx temper export runs/guard --out exported
 */
import type { GuardAnswer, LoadedGuard } from "temper-nlp/guard";

type Check = Pick<LoadedGuard, "check">;
const isRefused = ({ flagged, hidden, truncated }: GuardAnswer): boolean => flagged || hidden !== null || truncated;

/** A Fetch handler: `export default { fetch }` of a worker, or `app.post("/chat", (c) => handle(c.req.raw))` of Hono. */
export function createHandler(guard: Check, answer: (text: string) => Promise<string>) {
  return async (request: Request): Promise<Response> => {
    const text = await request.text();
    const found = await guard.check(text);
    if (isRefused(found)) return Response.json({ error: "refused", score: found.score }, { status: 422 });
    return new Response(await answer(text));
  };
}

interface CallParams {
  readonly prompt: readonly { readonly role: string; readonly content: unknown }[];
}

/** A middleware of the AI SDK: `wrapLanguageModel({ model, middleware: createMiddleware(guard) })`. */
export function createMiddleware(guard: Check) {
  const readTexts = (content: unknown): string[] =>
    Array.isArray(content)
      ? content.flatMap(({ text }) => (typeof text === "string" ? [text] : []))
      : [String(content)];
  return {
    specificationVersion: "v3" as const,
    async transformParams<Params extends CallParams>({ params }: { readonly params: Params }): Promise<Params> {
      const last = params.prompt.findLast(({ role }) => role === "user" || role === "tool");
      for (const text of readTexts(last?.content ?? []))
        if (isRefused(await guard.check(text))) throw new Error("The guard refused the prompt.");
      return params;
    },
  };
}

interface Span {
  setAttributes(attributes: Readonly<Record<string, string | number | boolean>>): unknown;
  end(): void;
}

/** Traces checks: `traceGuard(guard, trace.getTracer("guard"))` of @opentelemetry/api. The names follow a draft for guardrails. */
export function traceGuard(guard: Check, tracer: { startSpan(name: string): Span }): Check {
  return {
    async check(text) {
      const span = tracer.startSpan("apply_guardrail llm_input");
      try {
        const found = await guard.check(text);
        span.setAttributes({
          "gen_ai.operation.name": "apply_guardrail",
          "gen_ai.security.decision.type": isRefused(found) ? "deny" : "allow",
          "gen_ai.security.risk.score": found.score,
          "temper.guard.certified": found.certified,
          "temper.guard.hidden": found.hidden?.kind ?? "none",
        });
        return found;
      } finally {
        span.end();
      }
    },
  };
}
