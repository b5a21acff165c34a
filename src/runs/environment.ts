import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { type Example, formatExample } from "../tasks/example.js";
import { packageRoot } from "../tensor/native.js";

/**
 * environment.json: what a run ran on, enough to know whether another run can be compared with it.
 */
export const environmentSchema = z.object({
  temper: z.string(),
  commit: z.string().nullable(),
  node: z.string(),
  libtorch: z.string(),
  platform: z.string(),
  device: z.string(),
  precision: z.string(),
  threads: z.number(),
  model: z.object({ reference: z.string(), hash: z.string() }),
  tokenizer: z.string(),
  /** SHA-256 of the examples, and of data.jsonl if the run was trained on an array. */
  data: z.object({
    train: z.string(),
    validation: z.string().nullable(),
    file: z.string().nullable(),
    /** The dataset on the Hugging Face Hub and its commit; null if the data was on disk. */
    source: z.object({ repository: z.string(), revision: z.string() }).nullable().default(null),
  }),
  /** Hash of the substitutions; null if the run has none. */
  substitutions: z.string().nullable(),
});
export type Environment = z.output<typeof environmentSchema>;

export function readPackageVersion(): string {
  const { version } = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")) as { version: string };
  return version;
}

/** The commit of the checkout, with "-dirty" if files differ from it; null outside a checkout. */
export function readGitCommit(folder: string): string | null {
  const git = (...args: string[]): string =>
    execFileSync("git", ["-C", folder, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  try {
    // If Temper is installed as a package, the checkout around it is another project.
    return git("rev-parse", "--show-prefix") === ""
      ? git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
      : null;
  } catch {
    return null;
  }
}

/**
 * Compares a run's environment with the one it is resumed in. Another model or other data is
 * another run: an error. On another host the run continues, but not bitwise identically.
 */
export function compareEnvironments(
  folder: string,
  before: Environment,
  now: Environment,
  warn: (message: string) => void,
): void {
  const collectInputs = ({ model, tokenizer, data, substitutions }: Environment): Record<string, string | null> => ({
    model: model.hash,
    tokenizer,
    "training data": data.train,
    "validation data": data.validation,
    substitutions,
  });
  const old = collectInputs(before);
  const changed = Object.entries(collectInputs(now)).flatMap(([name, hash]) => (hash === old[name] ? [] : [name]));
  if (changed.length > 0)
    throw new UserError(
      `${folder}: --resume: ${changed.join(" and ")} changed since the run started. Start over with a different --out.`,
    );
  const settings = (["temper", "libtorch", "device", "precision", "threads"] as const).filter(
    (key) => before[key] !== now[key],
  );
  if (settings.length > 0) {
    const differences = settings.map((key) => `${key} ${before[key]}, now ${now[key]}`).join("; ");
    warn(`The run started in another environment (${differences}). The rest will not be bitwise identical.`);
  }
}

/** SHA-256 of examples: ids, texts and labels. */
export function hashExamples(examples: readonly Example[]): string {
  const hash = createHash("sha256");
  for (const example of examples) hash.update(formatExample(example));
  return hash.digest("hex");
}
