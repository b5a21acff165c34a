import { z } from "zod";
import { toJsonSchema } from "../base/describe-options.js";
import { hiddenKinds } from "../text/hidden-text.js";

export interface ServerDescription {
  readonly model: Readonly<Record<string, unknown>> & { readonly labels: readonly string[] };
  readonly maxTexts: number;
  readonly maxCharacters: number;
  readonly maxPasses: number;
  readonly maxClientPasses: number;
  readonly hasApiKey: boolean;
  readonly version: string;
}

const textSchema = z.union([z.string(), z.tuple([z.string()]), z.tuple([z.string(), z.string()])]);

/** The body of a request: texts, or pairs of texts. */
export const predictBodySchema = z.strictObject({ texts: z.array(textSchema) });

const errorSchema = z.object({ error: z.string() });

function describeAnswer(labels: readonly string[]) {
  return z.object({
    predictions: z.array(z.enum(labels)),
    probabilities: z.array(z.array(z.number()).describe(`In this order: ${labels.join(", ")}`)),
    flagged: z.array(z.boolean()).optional().describe("If the run has a threshold: whether it is exceeded"),
    certified: z
      .array(z.object({ kind: z.enum(["hash-vote", "windows"]), edits: z.int().nullable() }))
      .optional()
      .describe("For certified models: word edits that cannot change the label; null: text before and after"),
    hidden: z
      .array(z.object({ kind: z.enum(hiddenKinds), text: z.string() }).nullable())
      .optional()
      .describe("If a text has hidden text, which language models read: how it is hidden, and the text"),
  });
}

/** Describes the routes of a server in OpenAPI 3.1, whose schemas are JSON Schema. */
export function createOpenApi(server: ServerDescription): object {
  const { model, maxTexts, maxCharacters, maxPasses, maxClientPasses, hasApiKey, version } = server;
  const toContent = (schema: z.ZodType) => ({ "application/json": { schema: toJsonSchema(schema) } });
  const respond = (description: string, schema: z.ZodType = errorSchema) => {
    return { description, content: toContent(schema) };
  };
  const describeGet = (summary: string, responses: Readonly<Record<number, string>>, more: object = {}) => {
    const entries = Object.entries(responses).map(([status, description]) => [status, { description }]);
    return { get: { summary, responses: Object.fromEntries(entries), ...more } };
  };
  const requestSchema = z.strictObject({ texts: predictBodySchema.shape.texts.max(maxTexts) });
  return {
    openapi: "3.1.0",
    info: { title: `temper serve: ${model.model}`, version },
    ...(hasApiKey && {
      security: [{ apiKey: [] }],
      components: { securitySchemes: { apiKey: { type: "http", scheme: "bearer" } } },
    }),
    paths: {
      "/predict": {
        post: {
          summary: "Classify texts or pairs of texts.",
          description:
            'The body {"inputs": "a text"} of Hugging Face\'s inference API is accepted, too. ' +
            'The answer then has its form: [[{"label": …, "score": …}]].',
          requestBody: { required: true, content: toContent(requestSchema) },
          responses: {
            200: respond(
              "One label and one row of probabilities per text, in the order of the request.",
              describeAnswer(model.labels),
            ),
            400: respond("The request is not valid."),
            ...(hasApiKey && { 401: respond("The API key is missing or wrong.") }),
            413: respond(
              `More than ${maxTexts} texts, more than ${maxCharacters} characters in one of them, or texts that need ` +
                `more than ${maxPasses} model passes. With retry-after: the client has ${maxClientPasses} passes that wait.`,
            ),
            503: respond("Too many texts are waiting. Try again after the seconds in retry-after."),
          },
        },
      },
      "/": describeGet("The model, its labels and its settings.", { 200: "JSON" }),
      "/health": describeGet(
        "Whether the server accepts requests.",
        { 200: "It does.", 503: "It is stopping." },
        { security: [] },
      ),
      "/metrics": describeGet("Metrics in the text format of Prometheus.", { 200: "Text" }),
    },
  };
}
