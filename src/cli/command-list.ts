import type { CommandEntry } from "./command.js";

/**
 * The commands. Only the requested one is loaded; loading all would delay every start by a second.
 */
export const commands: Readonly<Record<string, CommandEntry>> = {
  harden: {
    group: "Start",
    summary: "train a standard and a robust classifier on your data, attack both and report",
    load: () => import("./commands/harden.js"),
  },
  try: {
    group: "Start",
    summary: "watch an attack fool a standard filter, but not a robust one",
    load: () => import("./commands/try.js"),
  },
  audit: {
    group: "Start",
    summary: "measure a classifier within a time limit: attacks, proofs, inputs and data, as one page",
    load: () => import("./commands/audit.js"),
  },
  setup: {
    group: "Start",
    summary: "find or install libtorch and build the native addon",
    load: () => import("./commands/setup.js"),
  },
  doctor: {
    group: "Start",
    summary: "check the installation and explain how to fix it",
    load: () => import("./commands/doctor.js"),
  },
  completion: {
    group: "Start",
    summary: "print a completion script for a shell",
    load: () => import("./commands/completion.js"),
  },
  attack: {
    group: "Attack",
    summary: "attack a model with changes of its texts",
    load: () => import("./commands/attack.js"),
  },
  attacks: {
    group: "Attack",
    summary: "list attacks with their parts and options",
    load: () => import("./commands/attacks.js"),
  },
  show: {
    group: "Attack",
    summary: "print adversarial examples of a journal as diffs",
    load: () => import("./commands/show.js"),
  },
  verify: {
    group: "Attack",
    summary: "compute attacks, proofs and certificates again from model and text",
    load: () => import("./commands/verify.js"),
  },
  exact: {
    group: "Prove",
    summary: "prove the smallest number of substitutions that fools a model, text by text",
    load: () => import("./commands/exact.js"),
  },
  certify: {
    group: "Prove",
    summary: "prove how many edits of a text the predictions of a model withstand",
    load: () => import("./commands/certify.js"),
  },
  calibrate: {
    group: "Prove",
    summary: "set the threshold of a guard for a promised rate of false alarms",
    load: () => import("./commands/calibrate.js"),
  },
  evaluate: {
    group: "Compare",
    summary: "measure the accuracy of a model on a task",
    load: () => import("./commands/evaluate.js"),
  },
  compare: {
    group: "Compare",
    summary: "compare models on the same examples, with confidence intervals and significance tests",
    load: () => import("./commands/compare.js"),
  },
  gate: {
    group: "Compare",
    summary: "compare the robustness of a model with a baseline, as a test for CI",
    load: () => import("./commands/gate.js"),
  },
  runs: {
    group: "Compare",
    summary: "list runs with their state, accuracy, date and size",
    load: () => import("./commands/runs.js"),
  },
  report: {
    group: "Compare",
    summary: "write runs, attacks and figures to one HTML file",
    load: () => import("./commands/report.js"),
  },
  studio: {
    group: "Compare",
    summary: "open a web page of live runs, with a playground for attacks",
    load: () => import("./commands/studio.js"),
  },
  predict: { group: "Ship", summary: "classify texts", load: () => import("./commands/predict.js") },
  export: {
    group: "Ship",
    summary: "write a model as ONNX, for other runtimes",
    load: () => import("./commands/export.js"),
  },
  push: {
    group: "Ship",
    summary: "upload the model of a run with its model card to the Hugging Face Hub",
    load: () => import("./commands/push.js"),
  },
  serve: { group: "Ship", summary: "serve a model over HTTP", load: () => import("./commands/serve.js") },
  train: {
    group: "Research",
    summary: "fine-tune a model, with or without robust methods",
    load: () => import("./commands/train.js"),
  },
  methods: {
    group: "Research",
    summary: "list fine-tuning methods and their options",
    load: () => import("./commands/methods.js"),
  },
  sweep: {
    group: "Research",
    summary: "run a table of experiments, locally or on a Slurm cluster",
    load: () => import("./commands/sweep.js"),
  },
  table: {
    group: "Research",
    summary: "print the table of a sweep, next to published results",
    load: () => import("./commands/table.js"),
  },
  analyze: {
    group: "Research",
    summary: "analyze runs: weight distance, feature geometry, loss landscape, probes",
    load: () => import("./commands/analyze.js"),
  },
  prune: {
    group: "Research",
    summary: "remove files that finished runs no longer need",
    load: () => import("./commands/prune.js"),
  },
  substitutions: {
    group: "Research",
    summary: "build substitution tables and language-model constraints",
    load: () => import("./commands/substitutions.js"),
  },
  worker: {
    group: "Research",
    summary: "execute one request of a sweep",
    hidden: true,
    load: () => import("./commands/worker.js"),
  },
};
