import type { Command } from "@commander-js/extra-typings";
import {
  getDefaultPretrainFolder,
  type PretrainRequest,
  pretrain,
  pretrainRequestSchema,
  readPretrainConfig,
  resolvePretrainRequest,
} from "../../actions/pretrain.js";
import { UserError } from "../../base/errors.js";
import { formatCount, formatNumber } from "../../base/format.js";
import { interruptedExitCode } from "../../base/processes.js";
import { formatCommandLine } from "../../base/shell.js";
import { Interrupted, trainSettingsSchema } from "../../train/index.js";
import { ExitCode } from "../command.js";
import { type Io, write } from "../io.js";
import { addOptions, quietOption, runtimeFlags } from "../options.js";
import { formatTable, printJson } from "../output.js";
import { stopOnSignals } from "../signals.js";
import { createTrainProgress } from "../train-progress.js";

export const examples = [
  "temper pretrain --model bert-base-uncased --data texts.txt --epochs 1",
  "temper pretrain --model roberta-base --data texts.txt --method rose --whole-word-masking",
  "temper train --model runs/pretrain-texts-standard-seed0 --task sst2",
];

function addPretrainOptions(command: Command) {
  const withSettings = addOptions(command, pretrainRequestSchema.shape, {
    model: "<reference>",
    data: "<file>",
    validationData: "<file>",
    validationFraction: "<number>",
    maxValidationSequences: "<count>",
    maxLength: "<tokens>",
    maskProbability: "<number>",
    wholeWordMasking: "",
    methods: "--method <name[:key=value,…]>",
    seed: "<number>",
    ...runtimeFlags,
  });
  const trainFlags = {
    epochs: "<number>",
    batchSize: "<count>",
    learningRate: "<rate>",
    weightDecay: "<number>",
    warmupRatio: "<number>",
    evalSteps: "<count>",
    saveSteps: "<count>",
    saveTotalLimit: "<count>",
    gradientAccumulationSteps: "<count>",
  };
  return addOptions(withSettings, trainSettingsSchema.shape, trainFlags)
    .option("--no-cuda-graphs", "run eagerly on a GPU instead of capturing CUDA graphs")
    .option("--out <folder>", "folder of the pre-training (default: runs/pretrain-DATA-METHOD-seedN)")
    .option("--resume", "continue the pre-training in the folder; its settings need not be repeated")
    .option("--json", "print the results as JSON")
    .addOption(quietOption());
}

type PretrainCommandOptions = ReturnType<ReturnType<typeof addPretrainOptions>["opts"]>;

export function define(command: Command, io: Io): void {
  addPretrainOptions(command).action(async (options) => {
    const { out, resume, json, quiet, ...flags } = options;
    const config = resolvePretrainRequest(await readRequest(flags, out, resume === true));
    const folder = out ?? getDefaultPretrainFolder(config);
    const stop = stopOnSignals(io);
    const progress = createTrainProgress(io, { quiet, onStart: stop.listen });
    try {
      const { onEvent } = progress;
      const results = await pretrain({ ...config, out: folder, resume }, { onEvent, signal: stop.signal });
      progress.end();
      if (json) return await printJson(io, results);
      const { steps, bestStep, sequences, before, validation } = results;
      const best = bestStep === steps ? "" : `; the best checkpoint is from step ${formatCount(bestStep)}`;
      const rows = [
        ["training", `${formatCount(steps)} steps on ${formatCount(sequences)} sequences${best}`],
        ...(before ? [["perplexity before", formatNumber(before.perplexity ?? Number.NaN)]] : []),
        ...(validation ? [["perplexity", formatNumber(validation.perplexity ?? Number.NaN)]] : []),
        ["model", results.folder],
      ];
      await write(io.stdout, `${formatTable(io.stdout, rows)}\n`);
    } catch (error) {
      if (!(error instanceof Interrupted)) throw error;
      progress.end();
      const again = ["temper", "pretrain", "--resume", "--out", folder];
      io.stderr.write(`${error.message}\nContinue with: ${formatCommandLine(again)}\n`);
      throw new ExitCode(interruptedExitCode);
    } finally {
      progress.end();
      stop.close();
    }
  });
}

/** The settings from flags, or those of the pre-training to resume. */
async function readRequest(
  flags: Omit<PretrainCommandOptions, "out" | "resume" | "json" | "quiet">,
  out: string | undefined,
  resume: boolean,
): Promise<PretrainRequest> {
  const { epochs, batchSize, learningRate, weightDecay, warmupRatio, evalSteps, saveSteps, saveTotalLimit, ...rest } =
    flags;
  const { gradientAccumulationSteps, cudaGraphs, ...settings } = rest;
  const trainFlags = {
    epochs,
    batchSize,
    learningRate,
    weightDecay,
    warmupRatio,
    evalSteps,
    saveSteps,
    saveTotalLimit,
    gradientAccumulationSteps,
  };
  const given = removeUndefined({ ...settings, cudaGraphs: cudaGraphs ? undefined : false });
  const train = removeUndefined(trainFlags);
  if (!resume || settings.model !== undefined) return { ...given, train } as PretrainRequest;
  const before = out === undefined ? null : await readPretrainConfig(out);
  if (!before)
    throw new UserError(
      "--resume: which pre-training? Pass --out FOLDER of a started one, or the settings that it was started with.",
    );
  return { ...before, ...given, train: { ...before.train, ...train } } as PretrainRequest;
}

function removeUndefined(values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}
