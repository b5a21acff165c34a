import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { sha256File } from "../files.js";
import { chooseWeights } from "../models/checkpoint.js";
import type { Model } from "../models/index.js";
import type { Example } from "../tasks/task.js";
import { native, packageRoot } from "../tensor/native.js";
import type { Machine } from "./placement.js";

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
  readonly data: { readonly train: string; readonly selection: string | null };
}

export async function describeEnvironment(
  model: Model,
  machine: Machine,
  train: readonly Example[],
  selection: readonly Example[] | null,
): Promise<Environment> {
  const { version } = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")) as { version: string };
  return {
    temper: version,
    commit: commitOf(packageRoot),
    node: process.version,
    libtorch: native().versions().libtorch,
    platform: `${process.platform} ${process.arch}`,
    device: machine.device === "cpu" ? "cpu" : (native().devices()[0]?.name ?? machine.device),
    precision: machine.precision,
    threads: machine.threads,
    model: { reference: model.reference, hash: await hashModelFolder(model.folder) },
    tokenizer: model.tokenizer.hash,
    data: { train: hashExamples(train), selection: selection && hashExamples(selection) },
  };
}

/** The commit of the checkout, where it is one. */
function commitOf(folder: string): string | null {
  try {
    return execFileSync("git", ["-C", folder, "rev-parse", "HEAD"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return null;
  }
}

/** SHA-256 over a model's weights and config: two models with the same hash compute the same. */
export async function hashModelFolder(folder: string): Promise<string> {
  const names = readdirSync(folder).filter((name) => name.endsWith(".safetensors") || name === "config.json");
  const weights = chooseWeights(names)?.file;
  const used = names
    .filter((name) => name === "config.json" || name === "head.safetensors" || name === weights || /-of-\d+\.safetensors$/.test(name))
    .sort();
  const hash = createHash("sha256");
  for (const name of used) hash.update(`${name} ${await sha256File(join(folder, name))}\n`);
  return hash.digest("hex");
}

export function hashExamples(examples: readonly Example[]): string {
  const hash = createHash("sha256");
  for (const { id, texts, label } of examples) hash.update(`${JSON.stringify([id, texts, label])}\n`);
  return hash.digest("hex");
}
