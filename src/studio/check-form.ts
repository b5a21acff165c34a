import { existsSync } from "node:fs";
import { basename, join } from "node:path";
import type { z } from "zod";
import { attackRequestSchema } from "../actions/attack/attack-request.js";
import { formatAttackCommand } from "../actions/attack/format-attack-commands.js";
import { formatTrainCommand } from "../actions/train/format-train-command.js";
import { checkAttack } from "../attacks/load-attack.js";
import { UserError } from "../errors.js";
import type { WorkRequest } from "../jobs/work-request.js";
import { runConfigSchema } from "../runs/config.js";
import { resolveRun } from "../runs/read-config.js";
import { getRunPath } from "../runs/run-files.js";
import { RunFolder } from "../runs/run-folder.js";
import { getDefaultRunFolder } from "../runs/run-name.js";
import { isBelow, isModulePath, outputKeys } from "../trust.js";
import type { FormCheck } from "./api.js";
import { type FormValues, type JobKind, listFields, toRequest } from "./forms.js";

/** A form that was checked. Without problems, it has a request. */
export interface CheckedForm extends FormCheck {
  readonly request: Extract<WorkRequest, { kind: JobKind }> | null;
}

type Problems = Record<string, string>;

/** Checks a form as the command line checks its flags, and says what each field needs. */
export async function checkForm(kind: JobKind, values: FormValues, folders: readonly string[]): Promise<CheckedForm> {
  const given = toRequest(kind, values);
  const problems: Problems = {};
  const fields = new Set(listFields(kind, []).map(({ key }) => key));
  for (const key of Object.keys(values)) if (!fields.has(key)) problems[key] = "This form has no such field.";
  const request = await (kind === "train" ? checkTrain : checkAttackForm)(given, values, folders, problems).catch(
    (error: unknown) => {
      if (!(error instanceof UserError)) throw error;
      problems[kind === "train" ? "methods" : "attacks"] = error.message;
      return null;
    },
  );
  if (request === null || Object.keys(problems).length > 0)
    return { problems, command: null, code: null, request: null };
  return {
    problems,
    request,
    command: formatJobCommand(request),
    code: formatCode(kind, given, request.out),
  };
}

type Check<Kind extends JobKind> = (
  given: Record<string, unknown>,
  values: FormValues,
  folders: readonly string[],
  problems: Problems,
) => Promise<Extract<WorkRequest, { kind: Kind }> | null>;

const checkTrain: Check<"train"> = async (given, values, folders, problems) => {
  const parsed = parseRequest(runConfigSchema, given, problems);
  if (!parsed) return null;
  rejectModules("methods", parsed.methods, problems);
  if (parsed.task === null && parsed.data === null) problems.task = "Name a task, or a file of data below.";
  if (Object.keys(problems).length > 0) return null;
  const { config } = await resolveRun(given, { trust: "none", folder: "." }, () => "form");
  const out = readOut(values) ?? join(folders[0]!, basename(getDefaultRunFolder(config)));
  checkOut(out, folders, problems);
  if (existsSync(getRunPath(out, "events")))
    problems.out = `${out} already contains a run. Resume its job, or choose another folder.`;
  return { kind: "train", config, out };
};

const checkAttackForm: Check<"attack"> = async (given, values, folders, problems) => {
  const parsed = parseRequest(attackRequestSchema, given, problems);
  if (!parsed) return null;
  rejectModules("attacks", parsed.attacks, problems);
  if (Object.keys(problems).length > 0) return null;
  for (const { name, options } of parsed.attacks) await checkAttack(name, options, () => "form");
  checkOutputs(parsed, folders, problems);
  const run = await RunFolder.containing(parsed.model).catch(() => null);
  const out = readOut(values) ?? run?.path("attacks");
  if (out === undefined) problems.out = "Name a folder for the journals: the model is not a run.";
  else checkOut(out, folders, problems);
  return { kind: "attack", ...parsed, out: out ?? "" };
};

function toPlainAttack({ kind: _, ...request }: Extract<WorkRequest, { kind: "attack" }>): Record<string, unknown> {
  return request;
}

function parseRequest<Schema extends z.ZodType>(
  schema: Schema,
  given: unknown,
  problems: Problems,
): z.output<Schema> | null {
  const result = schema.safeParse(given);
  if (result.success) return result.data;
  for (const { path, message, code, ...rest } of result.error.issues) {
    const keys = code === "unrecognized_keys" && "keys" in rest ? (rest.keys as string[]) : [];
    const key = path.filter((part) => typeof part === "string").join(".") || keys[0] || "model";
    problems[key] ??= message.replace(/^Invalid input: /, "");
  }
  return null;
}

/** A module would run code that a form must not start. The command line can. */
function rejectModules(key: string, specs: readonly { readonly name: string }[], problems: Problems): void {
  const found = specs.find(({ name }) => isModulePath(name) || /[/\\]/.test(name));
  if (found) problems[key] = `${found.name}: use the command line for methods and attacks of your own.`;
}

function readOut({ out }: FormValues): string | null {
  return typeof out === "string" && out.trim() !== "" ? out.trim() : null;
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
  const problems: Problems = {};
  if (request.kind !== "train" && request.kind !== "attack")
    problems.kind = `${request.kind} is not a job of a studio.`;
  else {
    if (request.kind === "train")
      rejectModules("methods", request.config?.methods ?? [{ name: "run/config" }], problems);
    else {
      rejectModules("attacks", request.attacks, problems);
      checkOutputs(request, folders, problems);
    }
    checkOut(request.out, folders, problems);
  }
  const [problem] = Object.entries(problems);
  if (problem) throw new UserError(`This job cannot be continued here: ${problem[0]}: ${problem[1]}`);
}

function checkOutputs(
  { outputs }: Pick<Extract<WorkRequest, { kind: "attack" }>, "outputs">,
  folders: readonly string[],
  problems: Problems,
): void {
  for (const key of outputKeys) {
    const path = outputs[key];
    if (path !== null) checkOut(path, folders, problems, `outputs.${key}`);
  }
}

/** The command line of a job. */
export function formatJobCommand(request: Extract<WorkRequest, { kind: JobKind }>): string {
  return request.kind === "train"
    ? formatTrainCommand({ config: request.config!, folder: request.out })
    : formatAttackCommand(toPlainAttack(request));
}

/** The same request in TypeScript. */
function formatCode(kind: JobKind, given: Record<string, unknown>, out: string): string {
  const format = (value: unknown): string => JSON.stringify(value, null, 2).replace(/^(\s*)"(\w+)":/gm, "$1$2:");
  const [config, folder] = [format(given), JSON.stringify(out)];
  if (kind === "train")
    return `import { train } from "temper-nlp";\n\nawait train({ ...${config}, out: ${folder} });\n`;
  return `import { attack } from "temper-nlp";\n\nawait attack(${format({ ...given, out })});\n`;
}
