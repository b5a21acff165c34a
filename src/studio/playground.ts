import type { Hono } from "hono";
import { streamSSE } from "hono/streaming";
import { z } from "zod";
import { attackNames } from "../attacks/load-attack.js";
import { getErrorMessage } from "../base/errors.js";
import { CallProcess } from "../jobs/call-process.js";
import type { PlaygroundModel, SearchMessage } from "./api.js";
import { attackChoices, toRequest } from "./forms.js";
import type { PlaygroundMethods } from "./playground-process.js";
import type { RunCatalog } from "./run-catalog.js";
import { addRoute } from "./studio-app.js";

const modelSchema = z.strictObject({ model: z.string().min(1) });
const textsSchema = z
  .array(z.string().max(20_000, { error: "this text is too long: expected at most 20,000 characters" }))
  .min(1)
  .max(2);
const scoreSchema = modelSchema.extend({ texts: textsSchema, withWords: z.boolean().default(false) });
const attackSchema = modelSchema.extend({
  texts: textsSchema,
  label: z.number().int().nonnegative().nullable().default(null),
  attack: z.enum(attackNames, { error: "expected the name of a built-in attack" }),
  options: z.record(z.string(), z.union([z.string().max(1000), z.boolean()])).default({}),
});

/**
 * Adds the routes of the playground. Its models compute in a process of their own, so that the
 * studio always answers at once. Returns a function that ends it.
 */
export function addPlaygroundRoutes(app: Hono, catalog: RunCatalog): () => void {
  const computing = new CallProcess<PlaygroundMethods>("studio/playground-process.js");
  addRoute(app, "playground/open", modelSchema, async ({ model }): Promise<PlaygroundModel> => {
    const source = await catalog.getModelFolder(model);
    return { ...(await computing.call("describe", { source })), reference: model, attacks: attackChoices };
  });
  addRoute(app, "playground/examples", modelSchema, async ({ model }) =>
    computing.call("listExamples", { source: await catalog.getModelFolder(model) }),
  );
  addRoute(app, "playground/score", scoreSchema, async ({ model, ...request }) =>
    computing.call("score", { source: await catalog.getModelFolder(model), ...request }),
  );
  addRoute(app, "playground/attack", attackSchema, async (body, context) => {
    const { model, texts, label, attack: name, options: values } = body;
    const source = await catalog.getModelFolder(model);
    const { fields } = attackChoices.find(({ value }) => value === name)!;
    const { maskedLm = null, ...options } = toRequest(fields, values);
    const models = { maskedLm: maskedLm as string | null };
    const input = { source, texts, label, attack: { name, options }, models };
    return streamSSE(context, async (stream) => {
      const stop = new AbortController();
      stream.onAbort(() => stop.abort());
      const sent: Promise<void>[] = [];
      const onEvent = (message: SearchMessage): void =>
        void sent.push(stream.writeSSE({ data: JSON.stringify(message) }));
      try {
        await computing.call("attack", input, { signal: stop.signal, onEvent });
      } catch (error) {
        if (!stop.signal.aborted) onEvent({ type: "error", message: getErrorMessage(error) });
      }
      await Promise.all(sent);
    });
  });
  return () => computing.close();
}
