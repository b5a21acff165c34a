import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import { hiddenKinds } from "../text/hidden-text.js";

/** The facts that the description of a server depends on. */
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

/** Describes the routes of a server in OpenAPI 3.1. */
export function createOpenApi(description: ServerDescription): object {
  const { model, maxTexts, maxCharacters, maxPasses, maxClientPasses, hasApiKey, version } = description;
  const app = new OpenAPIHono();
  const registry = app.openAPIRegistry;
  const json = <Schema extends z.ZodType>(schema: Schema) => ({ "application/json": { schema } });
  const describeError = (description: string) => ({ description, content: json(z.object({ error: z.string() })) });
  const open: Record<string, string[]>[] = [];
  registry.registerPath(
    createRoute({
      method: "post",
      path: "/predict",
      summary: "Classify texts or pairs of texts.",
      description:
        'The body {"inputs": "a text"} of Hugging Face\'s inference API is accepted, too. ' +
        'The answer then has its form: [[{"label": …, "score": …}]].',
      request: {
        body: { required: true, content: json(z.strictObject({ texts: z.array(textSchema).max(maxTexts) })) },
      },
      responses: {
        200: {
          description: "One label and one row of probabilities per text, in the order of the request.",
          content: json(
            z.object({
              predictions: z.array(z.enum(model.labels as [string, ...string[]])),
              probabilities: z.array(z.array(z.number()).describe(`In this order: ${model.labels.join(", ")}`)),
              flagged: z.array(z.boolean()).optional().describe("If the run has a threshold: whether it is exceeded"),
              certified: z
                .array(z.object({ kind: z.enum(["hash-vote", "windows"]), edits: z.int().nullable() }))
                .optional()
                .describe("For certified models: word edits that cannot change the label; null: text before and after"),
              hidden: z
                .array(z.object({ kind: z.enum(hiddenKinds), text: z.string() }).nullable())
                .optional()
                .describe("If a text has hidden text, which language models read: how it is hidden, and the text"),
            }),
          ),
        },
        400: describeError("The request is not valid."),
        ...(hasApiKey && { 401: describeError("The API key is missing or wrong.") }),
        413: describeError(
          `More than ${maxTexts} texts, more than ${maxCharacters} characters in one of them, or texts that need more ` +
            `than ${maxPasses} model passes. With retry-after: the client has ${maxClientPasses} passes that wait.`,
        ),
        503: describeError("Too many texts are waiting. Try again after the seconds in retry-after."),
      },
    }),
  );
  const describeGet = (path: string, summary: string, responses: Record<number, string>, isOpen = false): void =>
    registry.registerPath(
      createRoute({
        method: "get",
        path,
        summary,
        ...(isOpen && { security: open }),
        responses: Object.fromEntries(
          Object.entries(responses).map(([status, description]) => [status, { description }]),
        ),
      }),
    );
  describeGet("/", "The model, its labels and its settings.", { 200: "JSON" });
  describeGet("/health", "Whether the server accepts requests.", { 200: "It does.", 503: "It is stopping." }, true);
  describeGet("/metrics", "Metrics in the text format of Prometheus.", { 200: "Text" });
  if (hasApiKey) registry.registerComponent("securitySchemes", "apiKey", { type: "http", scheme: "bearer" });
  return app.getOpenAPI31Document({
    openapi: "3.1.0",
    info: { title: `temper serve: ${model.model}`, version },
    ...(hasApiKey && { security: [{ apiKey: [] }] }),
  });
}
