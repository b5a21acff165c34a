import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Command, Option } from "@commander-js/extra-typings";
import { openLedger } from "../../analysis/ledger.js";
import { type ProbeScores, paperProbes, probeAnalysis, runProbes } from "../../analysis/probe.js";
import { readRunConfig } from "../../runs/read-config.js";
import { msgsProbes } from "../../tasks/msgs.js";
import type { Io } from "../io.js";
import { collect, dataOption, examples, leastLength, limitOption, realNumber, wholeNumber } from "../options.js";
import { watchTraining } from "../train-watch.js";
import { computeOptions, finish, folderOf, noticeOf, tellHowToGoOn } from "./shared.js";

export function define(command: Command, io: Io): void {
  computeOptions(command)
    .argument("<model>", "a folder, npm:PACKAGE or a hub name")
    .addOption(
      new Option("--method <name[+name…]>", "methods to compare, each a list innermost first: standard, r-drop+rose:order=first").argParser(
        collect,
      ),
    )
    .addOption(new Option("--probe <name...>", "which probes").choices(msgsProbes).default([...paperProbes]))
    .addOption(new Option("--seeds <count>", "runs of each").argParser(wholeNumber(1)).default(5))
    .addOption(dataOption())
    .addOption(limitOption("train on a class-balanced sample of so many examples"))
    .addOption(new Option("--epochs <number>", "passes over the training data").argParser(realNumber).default(1))
    .addOption(new Option("--batch-size <count>", "examples a batch").argParser(wholeNumber(1)))
    .addOption(new Option("--learning-rate <rate>", "the highest learning rate").argParser(realNumber))
    .addOption(new Option("--max-length <tokens>", "cut texts to this many tokens").argParser(wholeNumber(leastLength)).default(48))
    .addHelpText(
      "after",
      `\nStopped, it goes on where it was: runs that are done are kept in probe.runs.jsonl.\n${examples(
        "temper analyze probe roberta-base --method standard --method rose:order=first --data data/msgs",
      )}`,
    )
    .action(async (model, options) => {
      const out = folderOf(options, existsSync(model) ? [model] : []);
      const { data, limit, epochs, batchSize, learningRate, maxLength, device, threads } = options;
      // Read as a run's config is, so that mistakes are told in the same words.
      const config = await readRunConfig({
        flags: {
          model,
          task: `msgs:${options.probe[0]}`,
          data,
          limit,
          maxLength,
          device,
          threads,
          "train.epochs": epochs,
          "train.batchSize": batchSize,
          "train.learningRate": learningRate,
        },
      });
      const methods = (options.method ?? ["standard"]).map((label) => ({ label, method: label.split("+") }));
      for (const { method } of methods) await readRunConfig({ flags: { model, method } });
      const ledger = openLedger<ProbeScores>(join(out, "probe.runs.jsonl"));
      const notice = noticeOf(io, options);
      const shown = watchTraining(io, { quiet: options.quiet });
      const untell = tellHowToGoOn(io, "every finished run is kept", () => shown.end());
      try {
        const runs = await runProbes({
          probes: options.probe,
          methods,
          seeds: options.seeds,
          config,
          ledger,
          watch(name, done, total) {
            notice(`run ${done + 1} of ${total}: ${name}`);
            return shown.watch;
          },
          notice,
        });
        await finish(io, options, out, probeAnalysis({ model, runs }));
      } finally {
        untell();
        shown.end();
        ledger.close();
      }
    });
}
