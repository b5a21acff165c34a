import type { CommandEntry } from "./command.js";

/**
 * The commands. Only the requested one is loaded; loading all would delay every start by a second.
 */
export const commands: Readonly<Record<string, CommandEntry>> = {
  setup: { summary: "find or install libtorch and build the native addon", load: () => import("./commands/setup.js") },
  doctor: { summary: "check the installation and explain how to fix it", load: () => import("./commands/doctor.js") },
  harden: {
    summary: "train a standard and a robust classifier on your data, attack both and report",
    load: () => import("./commands/harden.js"),
  },
  try: {
    summary: "watch an attack fool a standard filter, but not a robust one",
    load: () => import("./commands/try.js"),
  },
  example: { summary: "write the example files of the tutorial", load: () => import("./commands/example.js") },
  train: { summary: "fine-tune a model, with or without robust methods", load: () => import("./commands/train.js") },
  evaluate: { summary: "measure the accuracy of a model on a task", load: () => import("./commands/evaluate.js") },
  predict: { summary: "classify texts", load: () => import("./commands/predict.js") },
  attack: { summary: "attack a model with changes of its texts", load: () => import("./commands/attack.js") },
  certify: {
    summary: "prove how many edits of a text the predictions of a model withstand",
    load: () => import("./commands/certify.js"),
  },
  calibrate: {
    summary: "set the threshold of a guard for a promised rate of false alarms",
    load: () => import("./commands/calibrate.js"),
  },
  exact: {
    summary: "prove the smallest number of substitutions that fools a model, text by text",
    load: () => import("./commands/exact.js"),
  },
  attacks: { summary: "list attacks with their parts and options", load: () => import("./commands/attacks.js") },
  augment: { summary: "write a dataset with changed copies of its texts", load: () => import("./commands/augment.js") },
  verify: { summary: "replay the journal of an attack against its model", load: () => import("./commands/verify.js") },
  compare: {
    summary: "compare models on the same examples, with confidence intervals and significance tests",
    load: () => import("./commands/compare.js"),
  },
  analyze: {
    summary: "analyze runs: weight distance, feature geometry, loss landscape, probes",
    load: () => import("./commands/analyze.js"),
  },
  report: { summary: "write runs, attacks and figures to one HTML file", load: () => import("./commands/report.js") },
  sweep: {
    summary: "run a table of experiments, locally or on a Slurm cluster",
    load: () => import("./commands/sweep.js"),
  },
  table: {
    summary: "print the table of a sweep or of runs, next to published results",
    load: () => import("./commands/table.js"),
  },
  methods: { summary: "list fine-tuning methods and their options", load: () => import("./commands/methods.js") },
  runs: {
    summary: "list runs with their state, accuracy, date and size",
    load: () => import("./commands/runs.js"),
  },
  show: { summary: "print adversarial examples of a journal as diffs", load: () => import("./commands/show.js") },
  prune: { summary: "remove files that finished runs no longer need", load: () => import("./commands/prune.js") },
  completion: { summary: "print a completion script for a shell", load: () => import("./commands/completion.js") },
  gate: {
    summary: "compare the robustness of a model with a baseline, as a test for CI",
    load: () => import("./commands/gate.js"),
  },
  merge: {
    summary: "average the weights of models: with the pre-trained ones, or of several runs",
    load: () => import("./commands/merge.js"),
  },
  export: { summary: "write a model as ONNX, for other runtimes", load: () => import("./commands/export.js") },
  push: {
    summary: "upload the model of a run with its model card to the Hugging Face Hub",
    load: () => import("./commands/push.js"),
  },
  serve: { summary: "serve a model over HTTP", load: () => import("./commands/serve.js") },
  studio: {
    summary: "open a web page of live runs, with a playground for attacks",
    load: () => import("./commands/studio.js"),
  },
  encode: { summary: "print tokens and features of texts", load: () => import("./commands/encode.js") },
  pretrain: {
    summary: "continue the training of a masked language model on texts",
    load: () => import("./commands/pretrain.js"),
  },
  fill: { summary: "print the most probable words behind a mask", load: () => import("./commands/fill.js") },
  substitutions: {
    summary: "build substitution tables and language-model constraints",
    load: () => import("./commands/substitutions.js"),
  },
  worker: { summary: "execute one request of a sweep", hidden: true, load: () => import("./commands/worker.js") },
};
