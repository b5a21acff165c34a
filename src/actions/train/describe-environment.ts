import { hashModelFolder } from "../../models/index.js";
import { type Environment, hashExamples, readGitCommit, readPackageVersion } from "../../runs/environment.js";
import { getGpuIndex } from "../../tensor/index.js";
import { native, packageRoot } from "../../tensor/native.js";
import type { PreparedRun } from "./prepare-run.js";

/** What of a run decides its environment. */
type DescribedRun = Pick<PreparedRun, "runtime"> & {
  readonly job: Pick<PreparedRun["job"], "model" | "task">;
  readonly examples: Pick<PreparedRun["examples"], "train" | "validation">;
};

/** Describes what a run is computed on and from. */
export async function describeEnvironment(
  { job: { model, task }, runtime, examples: { train, validation } }: DescribedRun,
  substitutions: string | null,
  dataFile: string | null,
): Promise<Environment> {
  return {
    temper: readPackageVersion(),
    commit: readGitCommit(packageRoot),
    node: process.version,
    libtorch: native().versions().libtorch,
    platform: `${process.platform} ${process.arch}`,
    device:
      runtime.device === "cpu" ? "cpu" : (native().devices()[getGpuIndex(runtime.device)]?.name ?? runtime.device),
    precision: runtime.precision,
    threads: runtime.threads,
    model: { reference: model.reference, hash: await hashModelFolder(model.folder) },
    tokenizer: model.tokenizer.hash,
    data: {
      train: hashExamples(train),
      validation: validation && hashExamples(validation),
      file: dataFile,
      source: task.source ? { repository: task.source.repository, revision: task.source.revision } : null,
    },
    substitutions,
  };
}
