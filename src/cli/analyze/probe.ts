import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Command, Option } from "@commander-js/extra-typings";
import { createProbeAnalysis, type ProbeScores, paperProbes, runProbes } from "../../analysis/probe.js";
import { openResultCache } from "../../analysis/result-cache.js";
import { readRunConfig } from "../../runs/read-config.js";
import { msgsProbes } from "../../tasks/msgs.js";
import type { Io } from "../io.js";
import {
  appendValue,
  createIntegerParser,
  dataOption,
  formatHelpExamples,
  maxSamplesOption,
  minSequenceLength,
  parseNumber,
} from "../options.js";
import { createTrainProgress } from "../train-progress.js";
import {
  addDeviceOptions,
  createWarningPrinter,
  getAnalysisFolder,
  printResumeHintOnStop,
  writeAndPrintAnalysis,
} from "./options.js";

export function define(command: Command, io: Io): void {
  addDeviceOptions(command)
    .argument("<model>", "a folder, npm:PACKAGE or a hub name")
    .addOption(
      new Option(
        "--method <name[+name…]>",
        "methods to compare, each a list innermost first: standard, r-drop+rose:variant=first",
      ).argParser(appendValue),
    )
    .addOption(new Option("--probe <name...>", "which probes").choices(msgsProbes).default([...paperProbes]))
    .addOption(new Option("--seeds <count>", "runs of each").argParser(createIntegerParser(1)).default(5))
    .addOption(dataOption())
    .addOption(maxSamplesOption("--max-train-samples", "train on a class-balanced sample of so many examples"))
    .addOption(new Option("--epochs <number>", "passes over the training data").argParser(parseNumber).default(1))
    .addOption(new Option("--batch-size <count>", "examples a batch").argParser(createIntegerParser(1)))
    .addOption(new Option("--learning-rate <rate>", "the highest learning rate").argParser(parseNumber))
    .addOption(
      new Option("--max-length <tokens>", "cut texts to this many tokens")
        .argParser(createIntegerParser(minSequenceLength))
        .default(48),
    )
    .addHelpText(
      "after",
      `\nStopped, it goes on where it was: runs that are done are kept in probe.runs.jsonl.\n${formatHelpExamples(
        "temper analyze probe roberta-base --method standard --method rose:variant=first --data data/msgs",
      )}`,
    )
    .action(async (model, options) => {
      const out = getAnalysisFolder(options, existsSync(model) ? [model] : []);
      const { data, maxTrainSamples, epochs, batchSize, learningRate, maxLength, device, threads } = options;
      // Read as a run's config is, so that mistakes are told in the same words.
      const config = await readRunConfig({
        flags: {
          model,
          task: `msgs:${options.probe[0]}`,
          data,
          maxTrainSamples,
          maxLength,
          device,
          threads,
          "train.epochs": epochs,
          "train.batchSize": batchSize,
          "train.learningRate": learningRate,
        },
      });
      const methods = (options.method ?? ["standard"]).map((label) => ({ label, method: label.split("+") }));
      for (const { method } of methods) await readRunConfig({ flags: { model, methods: method } });
      const cache = openResultCache<ProbeScores>(join(out, "probe.runs.jsonl"));
      const warn = createWarningPrinter(io, options);
      const shown = createTrainProgress(io, { quiet: options.quiet });
      const untell = printResumeHintOnStop(io, "every finished run is kept", () => shown.end());
      try {
        const runs = await runProbes({
          probes: options.probe,
          methods,
          seeds: options.seeds,
          config,
          cache: cache,
          createCallbacks(name, done, total) {
            warn(`run ${done + 1} of ${total}: ${name}`);
            return shown.callbacks;
          },
          warn: warn,
        });
        await writeAndPrintAnalysis(io, options, out, createProbeAnalysis({ model, runs }));
      } finally {
        untell();
        shown.end();
        cache.close();
      }
    });
}
