import { z } from "zod";
import { UserError } from "../errors.js";
import type { MethodSpec } from "../methods/index.js";
import { trainSettingsSchema } from "../train/index.js";

const count = z.number().int().positive();

/** One method of a list: `rose`, `rose:variant=first,updateRatio=0.6`, or `{ rose: { variant: first, updateRatio: 0.6 } }`. */
const methodSchema = z.union([z.string(), z.record(z.string(), z.record(z.string(), z.unknown()).nullable())], {
  error: 'expected a method\'s name ("rose", "rose:variant=first,updateRatio=0.6") or { name: options }',
});

/** Everything that decides a run; the defaults of what the trainer does stand in train/settings.ts. */
export const runConfigSchema = z.strictObject({
  model: z
    .string({ error: "expected a model (--model): a folder, npm:PACKAGE or a hub name" })
    .min(1)
    .describe("a folder, npm:PACKAGE or a hub name"),
  task: z.string().nullable().default(null).describe("a task's name; none for a table of your own"),
  data: z.string().nullable().default(null).describe("folder or file of the data"),
  textColumn: z.array(z.string()).default([]).describe("columns of the text or the pair, for a table of your own"),
  labelColumn: z.string().nullable().default(null).describe("column of the label, for a table of your own"),
  skipBadRows: z.boolean().default(false).describe("leave out rows that cannot be read instead of stopping"),
  tokenization: z
    .enum(["subword", "word"])
    .default("subword")
    .describe("how text becomes tokens; word: one token a word, for word substitution"),
  head: z.enum(["hf", "mlp"]).default("hf").describe("classification head: transformers' own, or RIFT's two layers"),
  pooling: z.enum(["cls", "pooler", "mean"]).default("cls").describe("what a text's feature is"),
  maxLength: count.default(128).describe("tokens a text is cut to"),
  maxTrainSamples: count
    .nullable()
    .default(null)
    .describe("train on a seeded, class-balanced sample of so many examples"),
  maxValidationSamples: count.nullable().default(1000).describe("select by a sample of so many examples; null: all"),
  maxTestSamples: count
    .nullable()
    .default(null)
    .describe("report on a class-balanced sample of so many examples; null: all"),
  substitutions: z.string().nullable().default(null).describe("wordnet, or a JSON table word -> words"),
  inVocabSubstitutes: z
    .boolean()
    .default(false)
    .describe("leave out substitutes that the word encoding makes [UNK] of"),
  methods: z.array(methodSchema).default([]).describe("methods, innermost first; none is standard fine-tuning"),
  train: trainSettingsSchema.prefault({}),
  seed: z.number().int().nonnegative().default(0),
  device: z
    .string()
    .regex(/^(auto|cpu|cuda(:\d+)?)$/, { error: "expected auto, cpu, cuda or cuda:N" })
    .default("auto"),
  precision: z
    .enum(["bf16", "tf32", "fp32"])
    .nullable()
    .default(null)
    .describe("null: bf16 on a GPU (smart: tf32), fp32 on a CPU"),
  cudaGraphs: z
    .boolean()
    .default(true)
    .describe("on a GPU, record whole updates and replay them; false runs operator by operator"),
  threads: count.nullable().default(null).describe("CPU threads; null: all cores"),
});

export type RunConfig = z.output<typeof runConfigSchema>;

/** The methods of a config with their options apart. */
export function toMethodSpecs(method: RunConfig["methods"]): MethodSpec[] {
  return method.flatMap((entry) =>
    typeof entry === "string"
      ? [parseMethodSpec(entry)]
      : Object.entries(entry).map(([name, options]) => ({ name, options: options ?? {} })),
  );
}

/** NAME[:key=value,…] as it stands on a command line. Values are numbers, true, false, null or words. */
export function parseMethodSpec(text: string, flag = "--method"): MethodSpec {
  const colon = text.indexOf(":");
  if (colon < 0) return { name: text, options: {} };
  const options: Record<string, unknown> = {};
  for (const part of text.slice(colon + 1).split(",")) {
    const equals = part.indexOf("=");
    if (equals < 0)
      throw new UserError(`${flag} ${text}: expected NAME:key=value,…, received "${part}" without a value`);
    options[part.slice(0, equals)] = parseScalar(part.slice(equals + 1));
  }
  return { name: text.slice(0, colon), options };
}

/** A value as it stands on a command line. */
export function parseScalar(text: string): unknown {
  if (text === "true" || text === "false") return text === "true";
  if (text === "null") return null;
  const number = Number(text);
  return text.trim() !== "" && !Number.isNaN(number) ? number : text;
}
