import { type Command, Option } from "@commander-js/extra-typings";
import { type SlurmSettings, slurmSchema } from "../sweeps/schema.js";
import { validate } from "../validate.js";
import { appendValue, createIntegerParser, jsonOption, quietOption } from "./options.js";

export function addSweepOptions(command: Command) {
  return command
    .argument("<file>", "the sweep: a YAML file such as experiments/sweeps/rose-table-1.yaml")
    .option("--out <folder>", "where runs and tables go (default: runs/NAME, or runs/NAME-PROFILE)")
    .option("--profile <name>", "a profile of the file, such as small")
    .addOption(
      new Option(
        "--set <key=value>",
        "any key of the file: maxTrainSamples=500, evaluation.numExamples=20; may be repeated",
      ).argParser(appendValue),
    )
    .addOption(
      new Option("--jobs <count>", "runs at once (default: one a GPU, or one; on Slurm what it gives)").argParser(
        createIntegerParser(1, 1024),
      ),
    )
    .option("--dry-run", "say what it would run and cost; write nothing")
    .option("--resume", "go on with the sweep in the folder; what has finished is never run again")
    .option("--yes", "do not ask back before more than 1,000 runs")
    .option("--no-estimate", "do not measure first how long it will take")
    .addOption(
      new Option("--backend <where>", "this machine, or a cluster")
        .choices(["local", "slurm"] as const)
        .default("local" as const),
    )
    .option("--detach", "on Slurm: submit and return; --resume follows later")
    .option("--partition <name>", "on Slurm, as are the next: where to run")
    .addOption(new Option("--gpus <count>", "GPUs a run").argParser(createIntegerParser(0, 64)))
    .addOption(new Option("--cpus <count>", "CPU cores a run").argParser(createIntegerParser(1, 1024)))
    .option("--time <limit>", "time limit of a job, such as 4:00:00; a run that needs longer is continued in another")
    .option("--memory <size>", "memory of a job, such as 16G")
    .addOption(
      new Option("--sbatch <option>", "any other option of sbatch: --sbatch=--account=nlp; may be repeated").argParser(
        appendValue,
      ),
    )
    .addOption(jsonOption("print the plan or the table as JSON"))
    .addOption(quietOption());
}

export type SweepCommandOptions = ReturnType<ReturnType<typeof addSweepOptions>["opts"]>;

/** The file's settings for the cluster, with those of flags over them. */
export function resolveSlurmSettings(
  file: SlurmSettings,
  { partition, gpus, cpus, time, memory, sbatch }: SweepCommandOptions,
): SlurmSettings {
  const flags = { partition, gpus, cpus, time, memory };
  const given = Object.fromEntries(Object.entries(flags).filter(([, value]) => value !== undefined));
  return validate(
    slurmSchema,
    { ...file, ...given, options: [...file.options, ...(sbatch ?? [])] },
    ([key]) => `--${String(key ?? "sbatch")}`,
  );
}
