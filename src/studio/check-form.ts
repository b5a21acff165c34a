import { existsSync, realpathSync } from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
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
import type { FormCheck } from "./api.js";
import { type FormValues, type JobKind, toRequest } from "./forms.js";

/** A form that was checked. Without problems, it has a request. */
export interface CheckedForm extends FormCheck {
  readonly request: Extract<WorkRequest, { kind: JobKind }> | null;
}

type Problems = Record<string, string>;

/** Checks a form as the command line checks its flags, and says what each field needs. */
export async function checkForm(kind: JobKind, values: FormValues, folders: readonly string[]): Promise<CheckedForm> {
  const given = toRequest(kind, values);
  const problems: Problems = {};
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
    command:
      request.kind === "train"
        ? formatTrainCommand({ config: request.config!, folder: request.out })
        : formatAttackCommand(toPlainAttack(request)),
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
  const found = specs.find(({ name }) => /[/\\]|\.[cm]?[jt]s$/.test(name));
  if (found) problems[key] = `${found.name}: use the command line for methods and attacks of your own.`;
}

function readOut({ out }: FormValues): string | null {
  return typeof out === "string" && out.trim() !== "" ? out.trim() : null;
}

/** Jobs write only below the folders of the studio. */
function checkOut(out: string, folders: readonly string[], problems: Problems): void {
  let existing = resolve(out);
  while (!existsSync(existing)) existing = dirname(existing);
  const isInside = folders.some((folder) => {
    const root = realpathSync(folder);
    const path = join(realpathSync(existing), relative(existing, resolve(out)));
    return path.startsWith(`${root}${sep}`);
  });
  if (!isInside) problems.out = `Expected a folder below ${folders.join(" or ")}.`;
}

/** The same request in TypeScript. */
function formatCode(kind: JobKind, given: Record<string, unknown>, out: string): string {
  const format = (value: unknown): string => JSON.stringify(value, null, 2).replace(/^(\s*)"(\w+)":/gm, "$1$2:");
  const [config, folder] = [format(given), JSON.stringify(out)];
  if (kind === "train")
    return `import { train } from "temper-nlp";\n\nawait train({ ...${config}, out: ${folder} });\n`;
  return `import { attack } from "temper-nlp";\n\nawait attack(${format({ ...given, out })});\n`;
}
