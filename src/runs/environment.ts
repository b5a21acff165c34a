import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../errors.js";
import { hashModelFolder, type Model } from "../models/index.js";
import type { Example } from "../tasks/task.js";
import { gpuIndex } from "../tensor/index.js";
import { native, packageRoot } from "../tensor/native.js";
import type { RuntimeConfig } from "./runtime-config.js";

/** What a run ran on: enough to know whether another one can be compared with it. */
export interface Environment {
  readonly temper: string;
  readonly commit: string | null;
  readonly node: string;
  readonly libtorch: string;
  readonly platform: string;
  readonly device: string;
  readonly precision: string;
  readonly threads: number;
  readonly model: { readonly reference: string; readonly hash: string };
  readonly tokenizer: string;
  /** Hashes of the examples used. */
  readonly data: { readonly train: string; readonly selection: string | null };
  /** Hash of the substitution set, where the run names one. */
  readonly substitutions: string | null;
}

export async function describeEnvironment(
  model: Model,
  machine: RuntimeConfig,
  train: readonly Example[],
  selection: readonly Example[] | null,
  substitutions: string | null,
): Promise<Environment> {
  const { version } = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")) as { version: string };
  return {
    temper: version,
    commit: readGitCommit(packageRoot),
    node: process.version,
    libtorch: native().versions().libtorch,
    platform: `${process.platform} ${process.arch}`,
    device: machine.device === "cpu" ? "cpu" : (native().devices()[gpuIndex(machine.device)]?.name ?? machine.device),
    precision: machine.precision,
    threads: machine.threads,
    model: { reference: model.reference, hash: await hashModelFolder(model.folder) },
    tokenizer: model.tokenizer.hash,
    data: { train: hashExamples(train), selection: selection && hashExamples(selection) },
    substitutions,
  };
}

/** The commit of the checkout, where it is one; "-dirty" behind it where files differ from it. */
function readGitCommit(folder: string): string | null {
  const git = (...args: string[]): string =>
    execFileSync("git", ["-C", folder, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  try {
    // Installed as a package, the checkout around us is somebody else's.
    return git("rev-parse", "--show-prefix") === ""
      ? git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
      : null;
  } catch {
    return null;
  }
}

/**
 * Compares a run's environment with the one it is resumed in. Another model or other data is another run: an error. Another machine
 * goes on, but not to the bit.
 */
export function compareEnvironments(
  folder: string,
  before: Environment,
  now: Environment,
  warn: (message: string) => void,
): void {
  const facts = ({ model, tokenizer, data, substitutions }: Environment): Record<string, string | null> => ({
    model: model.hash,
    tokenizer,
    "training data": data.train,
    "selection data": data.selection,
    substitutions,
  });
  // Runs of older versions do not tell their substitutions.
  const old = facts({
    ...before,
    substitutions: before.substitutions === undefined ? now.substitutions : before.substitutions,
  });
  const changed = Object.entries(facts(now)).flatMap(([name, hash]) => (hash === old[name] ? [] : [name]));
  if (changed.length > 0)
    throw new UserError(
      `${folder}: --resume: since the run began, its ${changed.join(" and ")} changed; start anew with another --out`,
    );
  const machine = (["temper", "libtorch", "device", "precision", "threads"] as const).filter(
    (key) => before[key] !== now[key],
  );
  if (machine.length > 0) {
    const differences = machine.map((key) => `${key} ${before[key]}, now ${now[key]}`).join("; ");
    warn(`the run began with other settings of the machine (${differences}): the rest will not be the same to the bit`);
  }
}

export function hashExamples(examples: readonly Example[]): string {
  const hash = createHash("sha256");
  for (const { id, texts, label } of examples) hash.update(`${JSON.stringify([id, texts, label])}\n`);
  return hash.digest("hex");
}
