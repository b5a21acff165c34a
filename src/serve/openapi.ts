import type { InferenceLimits } from "./inference-app.js";

const text = { oneOf: [{ type: "string" }, { type: "array", items: { type: "string" }, minItems: 1, maxItems: 2 }] };

function createErrorResponse(description: string): object {
  const schema = { type: "object", properties: { error: { type: "string" } }, required: ["error"] };
  return { description, content: { "application/json": { schema } } };
}

/** Describes the routes of a server in OpenAPI 3.1. */
export function createOpenApi(
  model: Readonly<Record<string, unknown>>,
  { maxTexts, maxCharacters }: InferenceLimits,
  hasApiKey: boolean,
  version: string,
): object {
  const labels = (model.labels as readonly string[] | undefined) ?? [];
  const json = (schema: object) => ({ "application/json": { schema } });
  const errors = {
    400: createErrorResponse("The request is not valid."),
    ...(hasApiKey && { 401: createErrorResponse("The API key is missing or wrong.") }),
    413: createErrorResponse(`More than ${maxTexts} texts, or more than ${maxCharacters} characters in one of them.`),
    503: createErrorResponse("Too many texts are waiting. Try again after the seconds in retry-after."),
  };
  const open = { security: [] };
  return {
    openapi: "3.1.0",
    info: { title: `temper serve: ${model.model}`, version },
    ...(hasApiKey && {
      components: { securitySchemes: { apiKey: { type: "http", scheme: "bearer" } } },
      security: [{ apiKey: [] }],
    }),
    paths: {
      "/predict": {
        post: {
          summary: "Classify texts or pairs of texts.",
          requestBody: {
            required: true,
            content: json({
              type: "object",
              properties: { texts: { type: "array", items: text, maxItems: maxTexts } },
              required: ["texts"],
              additionalProperties: false,
            }),
          },
          responses: {
            200: {
              description: "One label and one row of probabilities per text, in the order of the request.",
              content: json({
                type: "object",
                properties: {
                  predictions: { type: "array", items: { enum: labels } },
                  probabilities: {
                    type: "array",
                    items: {
                      type: "array",
                      items: { type: "number" },
                      description: `In this order: ${labels.join(", ")}`,
                    },
                  },
                },
                required: ["predictions", "probabilities"],
              }),
            },
            ...errors,
          },
        },
      },
      "/": { get: { summary: "The model, its labels and its settings.", responses: { 200: { description: "JSON" } } } },
      "/health": {
        get: {
          summary: "Whether the server accepts requests.",
          ...open,
          responses: { 200: { description: "It does." }, 503: { description: "It is stopping." } },
        },
      },
      "/metrics": {
        get: { summary: "Metrics in the text format of Prometheus.", responses: { 200: { description: "Text" } } },
      },
    },
  };
}
