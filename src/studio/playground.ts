import type { Hono } from "hono";
import { streamSSE } from "hono/streaming";
import { z } from "zod";
import type { SearchStep } from "../actions/attack/attack-text.js";
import { isEndpoint } from "../actions/load/load-victim.js";
import { attackNames } from "../attacks/load-attack.js";
import type { AttackResult } from "../attacks/result.js";
import { getErrorMessage } from "../base/errors.js";
import type { AttackMessage } from "./api.js";
import { attackChoices, toRequest } from "./forms.js";
import { toAttackedText } from "./journal-search.js";
import { LoadedPlaygroundModel } from "./playground-model.js";
import type { RunCatalog } from "./run-catalog.js";
import { explainErrors, readBody } from "./studio-app.js";

/** Models that stay loaded. The one that was not used for the longest time is freed. */
const maxModels = 3;

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

/** Models to try texts and attacks on. */
export class Playground {
  readonly #models = new Map<string, Promise<LoadedPlaygroundModel>>();

  constructor(readonly catalog: RunCatalog) {}

  /** A run or an ONNX model of the studio by its id, or an endpoint by its URL. It is loaded once. */
  async open(reference: string): Promise<LoadedPlaygroundModel> {
    const source = isEndpoint(reference) ? reference : await this.catalog.getModelFolder(reference);
    const model = this.#models.get(reference) ?? LoadedPlaygroundModel.load(source, attackChoices);
    this.#models.delete(reference);
    this.#models.set(reference, model);
    model.catch(() => this.#models.delete(reference));
    for (const oldest of this.#models.keys()) if (this.#models.size > maxModels) this.#free(oldest);
    return model;
  }

  close(): void {
    for (const reference of [...this.#models.keys()]) this.#free(reference);
  }

  #free(reference: string): void {
    const model = this.#models.get(reference);
    this.#models.delete(reference);
    model?.then((loaded) => loaded.close()).catch(() => undefined);
  }
}

/** Adds the routes of the playground. */
export function addPlaygroundRoutes(app: Hono, playground: Playground): void {
  app.post("/api/playground/open", async (context) => {
    const { model } = await readBody(context, modelSchema);
    return context.json(
      await explainErrors(async () => ({ ...(await playground.open(model)).info, reference: model })),
    );
  });
  app.post("/api/playground/examples", async (context) => {
    const { model } = await readBody(context, modelSchema);
    return context.json(await explainErrors(async () => (await playground.open(model)).listExamples()));
  });
  app.post("/api/playground/score", async (context) => {
    const { model, texts, withWords } = await readBody(context, scoreSchema);
    return context.json(await explainErrors(async () => (await playground.open(model)).score(texts, withWords)));
  });
  app.post("/api/playground/attack", async (context) => {
    const { model: reference, texts, label, attack, options: values } = await readBody(context, attackSchema);
    const model = await explainErrors(() => playground.open(reference));
    return streamSSE(context, async (stream) => {
      const stop = new AbortController();
      stream.onAbort(() => stop.abort());
      const send = (message: AttackMessage): Promise<void> => stream.writeSSE({ data: JSON.stringify(message) });
      try {
        const { pieces } = await model.score(texts, false);
        await send({ type: "start", pieces });
        const sent: Promise<void>[] = [];
        const onStep = (step: SearchStep): void => void sent.push(send({ type: "step", ...step }));
        const { fields } = attackChoices.find(({ value }) => value === attack)!;
        const { maskedLm = null, ...options } = toRequest(fields, values);
        const watch = { label: label ?? undefined, signal: stop.signal, onStep };
        const resources = { maskedLm: maskedLm as string | null };
        const result = await model.attack(texts, { name: attack, options }, watch, resources);
        await Promise.all(sent);
        await send(createEndMessage(result));
      } catch (error) {
        if (stop.signal.aborted) return;
        await send({ type: "error", message: getErrorMessage(error) });
      }
    });
  });
}

function createEndMessage(result: AttackResult): AttackMessage {
  return { type: "end", result: toAttackedText(result), texts: result.finalTexts };
}
