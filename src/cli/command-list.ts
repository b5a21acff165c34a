import type { CommandEntry, CommandModule } from "./command.js";

const groups: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  Start: {
    harden: "train a standard and a robust classifier on your data, attack both and report",
    try: "watch an attack fool a standard filter, but not a robust one",
    audit: "measure a classifier within a time limit: attacks, proofs, inputs and data, as one page",
    setup: "find or install libtorch and build the native addon",
    doctor: "check the installation and explain how to fix it",
    completion: "print a completion script for a shell",
  },
  Attack: {
    attack: "attack a model with changes of its texts",
    attacks: "list attacks with their parts and options",
    show: "print adversarial examples of a journal as diffs",
    verify: "compute attacks, proofs and certificates again from model and text",
  },
  Prove: {
    exact: "prove the smallest number of substitutions that fools a model, text by text",
    certify: "prove how many edits of a text the predictions of a model withstand",
    calibrate: "set the threshold of a guard for a promised rate of false alarms",
  },
  Compare: {
    evaluate: "measure the accuracy of a model on a task",
    compare: "compare models on the same examples, with confidence intervals and significance tests",
    gate: "compare the robustness of a model with a baseline, as a test for CI",
    runs: "list runs with their state, accuracy, date and size",
    report: "write runs, attacks and figures to one HTML file",
    studio: "open a web page of live runs, with a playground for attacks",
  },
  Ship: {
    predict: "classify texts",
    export: "write a model as ONNX, for other runtimes",
    push: "upload the model of a run with its model card to the Hugging Face Hub",
    serve: "serve a model over HTTP",
  },
  Research: {
    train: "fine-tune a model, with or without robust methods",
    methods: "list fine-tuning methods and their options",
    sweep: "run a table of experiments, locally or on a Slurm cluster",
    table: "print the table of a sweep, next to published results",
    analyze: "analyze runs: weight distance, feature geometry, loss landscape, probes",
    prune: "remove files that finished runs no longer need",
    substitutions: "build substitution tables and language-model constraints",
  },
  Hidden: { worker: "execute one request of a sweep" },
};

/**
 * The commands, each in the file of its name. Only the requested one is loaded; loading all would delay every
 * start by a second.
 */
export const commands: Readonly<Record<string, CommandEntry>> = Object.fromEntries(
  Object.entries(groups).flatMap(([group, own]) =>
    Object.entries(own).map(([name, summary]): [string, CommandEntry] => [
      name,
      {
        group,
        summary,
        hidden: group === "Hidden",
        load: () => import(`./commands/${name}.js`) as Promise<CommandModule>,
      },
    ]),
  ),
);
