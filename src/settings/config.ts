import { basename, extname } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { parseSpec } from "../base/spec.js";
import { isModulePath } from "../base/trust.js";
import { countSchema, orNull, seedSchema, typedString } from "../base/validate.js";
import type { MethodDefinition, MethodReference, MethodSpec } from "../methods/index.js";
import type { InMemoryExample, TaskReference } from "../tasks/index.js";
import { normalizations } from "../text/canonical-tokenizer.js";
import { tokenizations } from "../text/encoding.js";
import { trainSettingsSchema } from "../train/index.js";
import { runtimeOptions } from "./runtime-config.js";

const labelMapError = "expected VALUE=LABEL pairs, such as 1=negative,5=positive";
const optionsSchema = z.record(z.string(), z.unknown());

/** A program can pass a method itself, such as `ascc({ beta: 4 })`. Files cannot contain one. */
const definitionSchema = z.custom<MethodDefinition>(
  (value) => typeof value === "function" || typeof value === "object",
);

/**
 * One method of a list: `rose`, `rose:variant=first`, `{ rose: { variant: first } }`, or `{ name,
 * options }`.
 */
const methodSchema = z
  .union(
    [
      typedString<MethodReference>(),
      z.object({ name: z.string(), options: optionsSchema, definition: definitionSchema.optional() }),
      z.record(z.string(), optionsSchema.nullable()),
    ],
    {
      error: 'expected a method\'s name ("rose", "rose:variant=first,updateRatio=0.6") or { name: options }',
    },
  )
  .transform((entry): MethodSpec[] => {
    if (typeof entry === "string") return [parseSpec(entry, "--method")];
    if (typeof entry.name === "string") return [entry as MethodSpec];
    return Object.entries(entry as Record<string, MethodSpec["options"] | null>).map(([name, options]) => ({
      name,
      options: options ?? {},
    }));
  });

/** Values of the label column and their labels: `1=negative,5=positive`, or a map. */
const labelMapSchema = z.union(
  [
    z.string().transform((text, context) => {
      const pairs = text.split(",").map((pair) => {
        const [value = "", ...label] = pair.split("=");
        return [value.trim(), label.join("=").trim()] as const;
      });
      if (pairs.every(([value, label]) => value !== "" && label !== "")) return Object.fromEntries(pairs);
      context.addIssue({ code: "custom", message: labelMapError });
      return z.NEVER;
    }),
    z.record(z.string(), z.union([z.string(), z.number()]).transform(String)),
  ],
  { error: labelMapError },
);

/** The name of the file in which a run stores the examples of an array. */
export const dataFile = "data.jsonl";

const dataWithColumnsSchema = z.strictObject({
  path: z.string(),
  textColumn: z.union([z.string().transform((column) => [column]), z.array(z.string())]).optional(),
  labelColumn: z.string().optional(),
  labelMap: labelMapSchema.optional(),
});

/** `data` of a program. A command line and the config of a run have the path only. */
export const dataSchema = z.union(
  [z.string(), dataWithColumnsSchema, z.custom<readonly InMemoryExample[]>((value) => Array.isArray(value))],
  { error: "expected a path, { path, textColumn, labelColumn } or an array of examples" },
);

const dataPath = orNull(z.string()).describe("folder or file of the data: .csv, .tsv, .jsonl or .parquet");

export const dataOptions = {
  task: orNull(typedString<TaskReference>()).describe("task, such as sst2, imdb, spam or hf:OWNER/NAME"),
  data: orNull(dataSchema).describe(dataPath.description!),
  textColumn: z.array(z.string()).default([]).describe("column of the text in a custom file (two for a pair)"),
  labelColumn: orNull(z.string()).describe("column of the label in a custom file"),
  labelMap: orNull(labelMapSchema).describe("labels of the values in the label column: 1=negative,5=positive"),
  skipBadRows: z.boolean().default(false).describe("skip rows that cannot be read instead of stopping"),
};

const dataRequestSchema = z.object(dataOptions);
export type DataRequest = z.output<typeof dataRequestSchema>;

/** Puts the columns that `data` names beside it. Its path or its examples are left. */
export function flattenData<Request extends Pick<DataRequest, "data">>(
  request: Request,
): Omit<Request, "data"> & { readonly data: string | readonly InMemoryExample[] | null } {
  const { data, ...others } = request;
  if (data === null || typeof data === "string" || !("path" in data)) return { ...others, data };
  const { path, ...columns } = data;
  return { ...others, ...columns, data: path };
}

/** Everything that decides a run. The defaults of the trainer are in train/settings.ts. */
export const runConfigSchema = z.strictObject({
  model: z
    .string({ error: "expected a model (--model): a folder, npm:PACKAGE or a Hugging Face model ID" })
    .min(1)
    .describe("a folder, npm:PACKAGE or a Hugging Face model ID"),
  ...dataOptions,
  data: dataPath,
  validationData: orNull(z.string(), "found in --data or held out from it").describe("file of the validation split"),
  testData: orNull(z.string(), "found in --data or held out from it").describe("file of the test split"),
  tokenization: z
    .enum(tokenizations)
    .default("subword")
    .describe("subword, or word for one token per word (released-word: as in RIFT's code)"),
  normalize: z
    .enum(normalizations)
    .default("none")
    .describe(
      "texts are read as they are (none), or in their canonical form, so that look-alikes cannot fool the model",
    ),
  head: z
    .enum(["hf", "mlp"])
    .default("hf")
    .describe("classification head: hf (as in transformers) or mlp (as in RIFT)"),
  headInit: z
    .enum(["normal", "uniform"])
    .default("normal")
    .describe("initial head: normal (as in transformers) or uniform (PyTorch's linear layers, as in RIFT's code)"),
  headFromModel: z
    .boolean()
    .default(false)
    .describe("keep the head of a fine-tuned model, whose labels must be those of the task"),
  pooling: z
    .enum(["cls", "pooler", "mean"])
    .default("cls")
    .describe("text embedding: cls, pooler or mean of the token states"),
  maxLength: countSchema.default(128).describe("maximum tokens per text; longer texts are truncated"),
  maxTrainSamples: orNull(countSchema, "all examples").describe("train on a class-balanced sample"),
  maxValidationSamples: countSchema
    .nullable()
    .default(1000)
    .meta({ whenNull: "all examples" })
    .describe("validate on a class-balanced sample"),
  maxTestSamples: orNull(countSchema, "all examples").describe("test on a class-balanced sample"),
  substitutions: orNull(z.string()).describe('word substitutions: "wordnet" or a JSON file'),
  inVocabSubstitutes: z.boolean().default(false).describe("drop substitutes that are not in the model's vocabulary"),
  caseSensitiveSubstitutes: z
    .boolean()
    .default(false)
    .describe("words with a capital letter have no substitutes, as in RIFT's code"),
  methods: z
    .array(methodSchema)
    .default([])
    .transform((entries) => entries.flat())
    .describe("fine-tuning method, innermost first; none: standard fine-tuning"),
  train: trainSettingsSchema.prefault({}),
  seed: seedSchema.default(0).describe("random seed"),
  tags: z.array(z.string().min(1)).default([]).describe("word that temper runs shows"),
  ...runtimeOptions,
  cudaGraphs: z.boolean().default(true).describe("on a GPU, capture optimizer steps as CUDA graphs"),
});

/**
 * The settings of a run, checked and complete.
 *
 *     const { train, methods } = (await Run.open("runs/rose")).config;
 */
export type RunConfig = z.output<typeof runConfigSchema>;

/**
 * The settings of a run as people write them. Only `model` and `task` or `data` are required.
 *
 *     const config: RunConfigInput = { model: "roberta-base", task: "rte", methods: [rose()] };
 */
export type RunConfigInput = Omit<z.input<typeof runConfigSchema>, "methods" | "data" | "textColumn" | "tags"> & {
  readonly tags?: readonly string[];
  /** A path, `{ path, textColumn, labelColumn }`, or the examples themselves: `[{ text, label }]`. */
  readonly data?: z.input<typeof dataSchema> | null;
  readonly textColumn?: string | readonly string[];
  /** `ascc({ beta: 4 })`, `"ascc:beta=4"` or `{ ascc: { beta: 4 } }`, innermost first. */
  readonly methods?: readonly (
    | MethodReference
    | MethodSpec
    | Readonly<Record<string, Readonly<Record<string, unknown>> | null>>
  )[];
};

/** The methods of a run in one word: `r-drop+rose`, or `standard` if there are none. */
export function formatMethodNames({ methods }: Pick<RunConfig, "methods">): string {
  const names = methods
    .map(({ name }) => (isModulePath(name) ? basename(name, extname(name)) : name))
    .filter((name) => name !== "standard");
  return names.join("+") || "standard";
}

/** Settings that do not change the result of a run. */
const nonIdentityKeys = new Set([
  "device",
  "threads",
  "cudaGraphs",
  "tags",
  "train.saveStrategy",
  "train.saveTotalLimit",
  "train.keepOptimizerState",
  "train.saveSteps",
  "train.loggingSteps",
]);

/**
 * Rejects a resumed run whose settings changed: another learning rate halfway is another
 * experiment.
 */
export function checkSameConfig<T extends Pick<RunConfig, "train">>(folder: string, before: T, now: T): void {
  const old = flattenConfig(before);
  const changed = [...flattenConfig(now)].filter(([key, value]) => old.get(key) !== value);
  if (changed.length === 0) return;
  const changes = changed.map(([key, value]) => `${key} was ${old.get(key)}, is ${value}`).join("; ");
  throw new UserError(
    `${folder}: --resume with different settings: ${changes}. ` +
      "Pass only --resume and --out to continue as before, or choose a different --out.",
  );
}

/** Everything that decides a run's result, as text: equal texts are the same run. */
export function formatConfigIdentity(config: RunConfig): string {
  return JSON.stringify([...flattenConfig(config)].sort(([a], [b]) => (a < b ? -1 : 1)));
}

export function flattenConfig({ train, ...rest }: Pick<RunConfig, "train">): Map<string, string> {
  const inner = Object.entries(train).map(([key, value]): [string, unknown] => [`train.${key}`, value]);
  const all = [...Object.entries(rest), ...inner].filter(([key]) => !nonIdentityKeys.has(key));
  return new Map(all.map(([key, value]) => [key, JSON.stringify(value)]));
}
