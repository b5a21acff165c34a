import { existsSync } from "node:fs";
import { basename, join } from "node:path";
import type { z } from "zod";
import { attackRequestSchema } from "../actions/attack/attack-request.js";
import { formatAttackCommand } from "../actions/attack/format-attack-commands.js";
import { formatTrainCommand, listChanges } from "../actions/train/format-train-command.js";
import { checkAttack } from "../attacks/load-attack.js";
import { didYouMean } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import { capitalize, formatCount } from "../base/format.js";
import { formatCommandLine, toFlag } from "../base/shell.js";
import { parseSpec } from "../base/spec.js";
import { isBelow, isModulePath, rejectModules, rejectOutputs } from "../base/trust.js";
import { hardenRequestSchema } from "../harden/harden-request.js";
import type { WorkRequest } from "../jobs/work-request.js";
import { getDefaultRunFolder, getRunPath } from "../runs/run-files.js";
import { RunFolder } from "../runs/run-folder.js";
import { runConfigSchema } from "../settings/config.js";
import { resolveRun } from "../settings/read-config.js";
import { formatDataName } from "../tasks/custom-task.js";
import { isRemoteData, taskNames } from "../tasks/index.js";
import type { FormCheck } from "./api.js";
import { type FormValues, type JobKind, listFields, toRequest } from "./forms.js";

export interface CheckedForm extends FormCheck {
  readonly request: Extract<WorkRequest, { kind: JobKind }> | null;
}

type Problems = Record<string, string>;

/** Checks a form as the command line checks its flags, and says at once what every field needs. */
export async function checkForm(kind: JobKind, values: FormValues, folders: readonly string[]): Promise<CheckedForm> {
  const fields = listFields(kind, []);
  const given = toRequest(fields, values);
  const problems: Problems = {};
  const keys = new Set(fields.map(({ key }) => key));
  for (const key of Object.keys(values)) if (!keys.has(key)) problems[key] = "This form has no such field.";
  const out = typeof values.out === "string" && values.out.trim() !== "" ? values.out.trim() : null;
  const request = await checks[kind]({ given, out, folders, problems });
  if (request === null || Object.keys(problems).length > 0)
    return { problems, command: null, code: null, question: null, request: null };
  return {
    problems,
    request,
    command: formatJobCommand(request),
    code: formatCode(kind, given, request.out),
    question: askAboutSize(request),
  };
}

/** Attacks on single texts that start without a question. */
const maxUnasked = 500;

function askAboutSize(request: JobRequest<JobKind>): string | null {
  if (request.kind === "train") return null;
  const { kind, attacks, numExamples } = request;
  // Without a number, harden chooses a small one.
  if (numExamples === null) return null;
  if (numExamples * attacks.length * (kind === "harden" ? 2 : 1) <= maxUnasked) return null;
  const names = attacks.map((attack) => (typeof attack === "string" ? attack : attack.name));
  const models = kind === "harden" ? " on both models" : "";
  return `This attacks ${formatCount(numExamples)} texts with ${names.join(", ")}${models}. Fewer texts end sooner.`;
}

type JobRequest<Kind extends JobKind> = Extract<WorkRequest, { kind: Kind }>;

/** A form as a request, the folder of its results if one was named, and the problems so far. */
interface FormInput {
  readonly given: Readonly<Record<string, unknown>>;
  readonly out: string | null;
  readonly folders: readonly string[];
  readonly problems: Problems;
}

const checks: { readonly [Kind in JobKind]: (input: FormInput) => Promise<JobRequest<Kind> | null> } = {
  async train({ given, out, folders, problems }) {
    const parsed = parseRequest(runConfigSchema, given, problems);
    checkData(given, problems);
    if (out !== null) checkOut(out, folders, problems);
    // Methods are checked also if other fields have problems.
    const complete = parsed ? given : { model: "any", methods: given.methods ?? [] };
    const resolved = await checkMethods("methods", complete, problems);
    if (!resolved || Object.keys(problems).length > 0) return null;
    const folder = out ?? join(folders[0]!, basename(getDefaultRunFolder(resolved.config)));
    if (existsSync(getRunPath(folder, "events")))
      problems.out = `${folder} already contains a run. Resume its job, or choose another folder.`;
    return { kind: "train", config: resolved.config, out: folder };
  },

  async attack({ given, out, folders, problems }) {
    const parsed = parseRequest(attackRequestSchema, given, problems);
    await checkAttacks(given.attacks, problems);
    if (!parsed) return null;
    if (parsed.saveDataset !== null) checkOut(parsed.saveDataset, folders, problems, "saveDataset");
    const run = await RunFolder.containing(parsed.model).catch(() => null);
    const folder = out ?? run?.path("attacks");
    if (folder === undefined) problems.out = "Name a folder for the journals: the model is not a run.";
    else checkOut(folder, folders, problems);
    return { kind: "attack", ...parsed, out: folder ?? "" };
  },

  async harden({ given, out, folders, problems }) {
    const parsed = parseRequest(hardenRequestSchema, given, problems);
    await checkMethods("method", { model: "any", methods: [given.method ?? []].flat() }, problems);
    await checkAttacks(given.attacks, problems);
    checkData(given, problems);
    const name = given.data ?? given.task;
    const folder = out ?? join(folders[0]!, `harden-${typeof name === "string" ? formatDataName(name) : ""}`);
    checkOut(folder, folders, problems);
    return parsed && { kind: "harden", ...parsed, out: folder };
  },
};

/** Turns an error that people can act on into the problem of a field. */
async function explain<T>(key: string, problems: Problems, work: () => Promise<T>): Promise<T | null> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    problems[key] ??= capitalize(error.message.replace(/^form: /, ""));
    return null;
  }
}

function checkMethods(key: string, config: Readonly<Record<string, unknown>>, problems: Problems) {
  return explain(key, problems, async () => {
    checkBuiltIn(config.methods);
    return resolveRun(config, { trust: "none", folder: "." }, () => "form");
  });
}

function checkAttacks(attacks: unknown, problems: Problems) {
  return explain("attacks", problems, async () => {
    for (const text of checkBuiltIn(attacks)) {
      const { name, options } = parseSpec(text, "attack");
      await checkAttack(name, options, () => "form");
    }
  });
}

/** Names as they were typed. A module would run code, which a form must not start. */
function checkBuiltIn(value: unknown): string[] {
  const specs = [value].flat().filter((each): each is string => typeof each === "string");
  const found = specs.map((spec) => spec.split(":", 1)[0]!).find((name) => isModulePath(name) || /[/\\]/.test(name));
  if (found !== undefined) throw new UserError(`${found}: use the command line for methods and attacks of your own.`);
  return specs;
}

function checkData({ task, data }: Record<string, unknown>, problems: Problems): void {
  if (task === undefined && data === undefined) problems.task = "Choose a dataset, or name a file of data.";
  if (typeof data === "string" && !isRemoteData(data) && !existsSync(data)) problems.data = `${data}: no such file.`;
  const known = typeof task === "string" ? task.split("@", 1)[0]! : "";
  if (known !== "" && !known.startsWith("hf:") && !taskNames.includes(known))
    problems.task = `Unknown dataset "${known}"${didYouMean(known, taskNames)}.`;
}

const typeNames: Readonly<Record<string, string>> = { number: "a number", int: "a whole number", boolean: "yes or no" };

function parseRequest<Schema extends z.ZodType>(
  schema: Schema,
  given: unknown,
  problems: Problems,
): z.output<Schema> | null {
  const result = schema.safeParse(given);
  if (result.success) return result.data;
  for (const { path, message, ...rest } of result.error.issues) {
    const key = path.filter((part) => typeof part === "string").join(".") || "model";
    const type = "expected" in rest ? typeNames[String(rest.expected)] : undefined;
    problems[key] ??= type ? `Expected ${type}.` : capitalize(message.replace(/^Invalid input: | \(--[\w-]+\)/g, ""));
  }
  return null;
}

/** Jobs write only below the folders of the studio. */
function checkOut(out: string, folders: readonly string[], problems: Problems, key = "out"): void {
  if (!isBelow(out, folders)) problems[key] = `Expected a path below ${folders.join(" or ")}.`;
}

/**
 * Checks the request of a job that a studio stored. The folder may come from somebody else, so the
 * rules of the forms apply again.
 */
export function checkStoredRequest(request: WorkRequest, folders: readonly string[]): void {
  const location = "This job cannot be continued here";
  const isJob = request.kind === "attack" || request.kind === "harden" || (request.kind === "train" && request.config);
  if (!isJob) throw new UserError(`${location}: ${request.kind} is not a job of a studio.`);
  rejectModules(request, "data", location);
  rejectOutputs(request, "data", folders, location);
  if (!isBelow(request.out, folders))
    throw new UserError(`${location}: out: expected a path below ${folders.join(" or ")}, received ${request.out}.`);
}

export function formatJobCommand(request: JobRequest<JobKind>): string {
  const { kind, ...rest } = request;
  if (request.kind === "train") return formatTrainCommand({ config: request.config!, folder: request.out });
  if (kind === "attack") return formatAttackCommand(rest);
  const flags = listChanges(rest, hardenRequestSchema.parse({})).flatMap(([key, value]) =>
    (Array.isArray(value) ? value : [value]).flatMap((each) => [
      key === "attacks" ? "--attack" : toFlag(key),
      ...(each === true ? [] : [String(each)]),
    ]),
  );
  return formatCommandLine(["temper", "harden", ...flags]);
}

function formatCode(kind: JobKind, given: Record<string, unknown>, out: string): string {
  const text = JSON.stringify({ ...given, out }, null, 2).replace(/^(\s*)"(\w+)":/gm, "$1$2:");
  return `import { ${kind} } from "temper-nlp";\n\nawait ${kind}(${text});\n`;
}
