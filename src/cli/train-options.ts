import { join } from "node:path";
import { type Command, Option } from "@commander-js/extra-typings";
import { UserError } from "../errors.js";
import { exists } from "../files.js";
import type { RunConfig } from "../runs/config.js";
import { readRunConfig } from "../runs/read-config.js";
import { runFiles } from "../runs/run-folder.js";
import {
  appendValue,
  createIntegerParser,
  dataOption,
  deviceOption,
  jsonOption,
  labelColumnOption,
  maxSamplesOption,
  minSequenceLength,
  parseNumber,
  precisionOption,
  quietOption,
  seedOption,
  skipBadRowsOption,
  taskOption,
  textColumnOption,
  threadsOption,
  tokenizationOption,
} from "./options.js";

/** The options of `temper train`: the settings that are changed most have flags of their own, `--set` reaches the others. */
export function addTrainOptions(command: Command) {
  return command
    .option("--config <file>", "a YAML file of settings; flags go over it")
    .addOption(
      new Option("--set <key=value>", "any setting by its key: train.warmupRatio=0.06; may be repeated").argParser(
        appendValue,
      ),
    )
    .option("--model <reference>", "a folder, npm:PACKAGE or a hub name such as roberta-base")
    .addOption(taskOption())
    .addOption(dataOption())
    .addOption(textColumnOption())
    .addOption(labelColumnOption())
    .addOption(skipBadRowsOption())
    .addOption(
      new Option("--method <name[:key=value,…]>", "a method over fine-tuning; repeat it, innermost first").argParser(
        appendValue,
      ),
    )
    .addOption(tokenizationOption("subword"))
    .addOption(new Option("--head <name>", "transformers' own head, or RIFT's").choices(["hf", "mlp"] as const))
    .addOption(new Option("--pooling <name>", "what a text's feature is").choices(["cls", "pooler", "mean"] as const))
    .addOption(
      new Option("--max-length <tokens>", "cut texts to this many tokens").argParser(
        createIntegerParser(minSequenceLength),
      ),
    )
    .addOption(new Option("--epochs <number>", "passes over the training data").argParser(parseNumber))
    .addOption(new Option("--batch-size <count>", "examples a batch").argParser(createIntegerParser(1)))
    .addOption(new Option("--learning-rate <rate>", "the highest learning rate").argParser(parseNumber))
    .addOption(maxSamplesOption("--max-train-samples", "train on a seeded, class-balanced sample of so many examples"))
    .addOption(seedOption("decides all that is drawn"))
    .option("--substitutions <table>", "words that may stand for words: wordnet, or a JSON table")
    .option("--in-vocab-substitutes", "leave out substitutes that the model reads as unknown words")
    .addOption(deviceOption())
    .addOption(precisionOption())
    .addOption(threadsOption())
    .option("--no-cuda-graphs", "on a GPU, run operator by operator instead of recording whole updates")
    .option("--out <folder>", "the run folder (default: runs/TASK-METHOD-seedN)")
    .option("--resume", "go on with the run in the folder; with --out alone, as it was begun")
    .option("--tensorboard", "write TensorBoard files too")
    .addOption(
      new Option("--save-total-limit <count>", "newest checkpoints kept besides the best").argParser(
        createIntegerParser(1),
      ),
    )
    .option("--dry-run", "say what the run would be, its memory and its time; write nothing")
    .addOption(jsonOption("print the results (or the plan) as JSON"))
    .addOption(quietOption());
}

export type TrainCommandOptions = ReturnType<ReturnType<typeof addTrainOptions>["opts"]>;

/** The config that flags and files name; under --resume without a model, that of the run to go on with. */
export async function readTrainConfig(options: TrainCommandOptions): Promise<RunConfig> {
  const {
    model,
    task,
    data,
    textColumn,
    labelColumn,
    skipBadRows,
    method,
    tokenization,
    head,
    pooling,
    maxLength,
    maxTrainSamples,
    seed,
  } = options;
  const {
    epochs,
    batchSize,
    learningRate,
    substitutions,
    inVocabSubstitutes,
    device,
    precision,
    threads,
    saveTotalLimit,
  } = options;
  return readRunConfig({
    file: await findConfigFile(options),
    set: options.set ?? [],
    flags: {
      ...{
        model,
        task,
        data,
        textColumn,
        labelColumn,
        skipBadRows,
        methods: method,
        tokenization,
        head,
        pooling,
        maxLength,
        maxTrainSamples,
        seed,
      },
      ...{ substitutions, inVocabSubstitutes, device, precision, threads },
      cudaGraphs: options.cudaGraphs ? undefined : false,
      "train.epochs": epochs,
      "train.batchSize": batchSize,
      "train.learningRate": learningRate,
      "train.saveTotalLimit": saveTotalLimit,
    },
  });
}

async function findConfigFile({ config, model, resume, out }: TrainCommandOptions): Promise<string | undefined> {
  if (config !== undefined || model !== undefined || !resume) return config;
  if (out === undefined)
    throw new UserError("--resume: which run? Name its folder with --out, or give the settings it was begun with");
  const file = join(out, runFiles.config);
  if (await exists(file)) return file;
  throw new UserError(`${out}: there is no run to resume: it has no ${runFiles.config}`);
}
