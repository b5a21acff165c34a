import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { analyses } from "../analysis/definitions.js";
import { checkAttack } from "../attacks/load-attack.js";
import { didYouMean } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import { isModulePath, type ModulePolicy, rejectModules, resolveModule, type Trust } from "../base/trust.js";
import { validate } from "../base/validate.js";
import { type KeyPath, parseAssignment, readYaml } from "../base/yaml.js";
import type { ConfigObject } from "../settings/read-config.js";
import { ConfigOverlay, isConfigObject } from "./config-overlay.js";
import { attackOptionsSchema, listBaselines, runConfigKeys, type SweepSettings, sweepFileSchema } from "./schema.js";

const folder = fileURLToPath(new URL("../../experiments", import.meta.url));

export async function listShippedSweeps(): Promise<
  { readonly name: string; readonly title: string; readonly profiles: readonly string[] }[]
> {
  const sweeps: { readonly name: string; readonly title: string; readonly profiles: readonly string[] }[] = [];
  for (const file of (await readdir(folder)).filter((name) => name.endsWith(".yaml")).sort()) {
    const { value } = await readYaml(join(folder, file));
    // The folder also has the published results.
    if (!isConfigObject(value) || !("rows" in value)) continue;
    const { title, profiles } = value;
    sweeps.push({
      name: basename(file, ".yaml"),
      title: typeof title === "string" ? title : "",
      profiles: isConfigObject(profiles) ? Object.keys(profiles) : [],
    });
  }
  return sweeps;
}

function findSweepFile(file: string): string {
  const shipped = join(folder, `${file}.yaml`);
  return !existsSync(file) && basename(file) === file && existsSync(shipped) ? shipped : file;
}

export interface SweepFile {
  readonly name: string;
  readonly profile: string | null;
  readonly settings: SweepSettings;
  /** The names of the attacks. Those of modules that may not be imported are their paths. */
  readonly attackNames: readonly string[];
  readonly baseConfig: ConfigObject;
  readonly modules: ModulePolicy;
  /** The file:line:column of a part of the sweep. */
  readonly locate: (path: KeyPath) => string;
}

/** The origin of settings that `--set` assigned. */
const setFlag = "--set";

/** Maps in which a profile or an assignment removes an entry by setting it to null. */
const removableMaps = ["stages", "rows", "columns", "grid", "averages"];

/**
 * Reads a sweep file. The profile overrides the file, and the assignments (`evaluation.numExamples=20`)
 * override both. Modules that the file names are refused by default.
 */
export async function readSweep(source: {
  readonly file: string;
  readonly profile?: string | null;
  readonly set?: readonly string[];
  readonly trust?: Trust;
}): Promise<SweepFile> {
  const { profile = null, set = [], trust = "data" } = source;
  const file = findSweepFile(source.file);
  const yaml = await readYaml(file);
  if (!isConfigObject(yaml.value))
    throw new UserError(`${file}: expected a sweep: settings of a run, rows, columns, grid, seeds, …`);
  const { profiles = {}, ...content } = yaml.value;
  const overlay = new ConfigOverlay().add(content, []);
  const changes = profile === null ? {} : getProfile(profiles, profile, file);
  overlay.add(changes, ["profiles", String(profile)]);
  const allColumns = Object.keys(isConfigObject(overlay.config.columns) ? overlay.config.columns : {});
  removeNulls(overlay.config, changes);
  const locate = (path: KeyPath): string => {
    const origin = overlay.getOrigin(path);
    return origin[0] === setFlag ? setFlag : yaml.locate(origin);
  };
  for (const [key, value] of set.map(parseAssignment)) {
    const [map, name, ...rest] = overlay.splitKey(key);
    overlay.set(key, value, [setFlag], locate);
    if (name !== undefined && rest.length === 0) removeNulls(overlay.config, { [map!]: { [name]: value } });
  }
  const parsed = validate(sweepFileSchema, overlay.config, locate) as SweepSettings;
  const modules: ModulePolicy = { trust, folder: dirname(file) };
  if (trust === "data") rejectModules(parsed.evaluation.analyses, trust, `${file}: evaluation.analyses`);
  const settings = resolveAttacks(parsed, modules, locate);
  checkNames(settings, allColumns, locate);
  const attackNames = await checkEvaluation(settings, modules, locate);
  const baseConfig = Object.fromEntries(Object.entries(overlay.config).filter(([key]) => runConfigKeys.includes(key)));
  return { name: basename(file, extname(file)), profile, settings, attackNames, baseConfig, modules, locate };
}

function getProfile(profiles: unknown, name: string, file: string): ConfigObject {
  const known = isConfigObject(profiles) ? profiles : {};
  const found = known[name];
  if (isConfigObject(found)) return found;
  const names = Object.keys(known);
  const offer = names.length > 0 ? `The profiles are ${names.join(", ")}.` : "The file has no profiles.";
  throw new UserError(`${file}: --profile ${name}: there is no such profile${didYouMean(name, names)}. ${offer}`);
}

function removeNulls(config: ConfigObject, changes: ConfigObject): void {
  for (const map of removableMaps) {
    for (const [key, value] of Object.entries(isConfigObject(changes[map]) ? changes[map] : {}))
      if (value === null) delete (config[map] as ConfigObject)[key];
  }
}

export function checkName(name: string, known: readonly string[], what: string, location: string): void {
  if (known.includes(name)) return;
  throw new UserError(
    `${location}: there is no ${what} ${name}${didYouMean(name, known)}. The ${what}s are ${known.join(", ")}.`,
  );
}

function resolveAttacks(
  settings: SweepSettings,
  modules: ModulePolicy,
  locate: (path: KeyPath) => string,
): SweepSettings {
  const attacks = Object.entries(settings.evaluation.attacks).map(([name, options]) => [
    resolveModule(name, modules, locate(["evaluation", "attacks", name])),
    options,
  ]);
  return { ...settings, evaluation: { ...settings.evaluation, attacks: Object.fromEntries(attacks) } };
}

function checkNames(
  { rows, columns, averages, baseline, evaluation }: SweepSettings,
  allColumns: readonly string[],
  locate: (path: KeyPath) => string,
): void {
  const [rowNames, columnNames] = [Object.keys(rows), Object.keys(columns)];
  const check = (names: readonly string[], known: readonly string[], what: string, path: KeyPath): void => {
    for (const name of names) checkName(name, known, what, locate(path));
  };
  check(listBaselines({ baseline }), rowNames, "row", ["baseline"]);
  for (const column of Object.keys(evaluation.columns))
    check([column], allColumns, "column", ["evaluation", "columns", column]);
  check(evaluation.exact?.columns ?? [], allColumns, "column", ["evaluation", "exact", "columns"]);
  for (const [name, list] of Object.entries(averages))
    for (const [i, column] of list.entries()) check([column], columnNames, "column", ["averages", name, i]);
  for (const [row, settings] of Object.entries(rows))
    for (const column of Object.keys(settings.columns ?? {}))
      check([column], allColumns, "column", ["rows", row, "columns", column]);
  for (const [i, analysis] of evaluation.analyses.entries()) {
    check(analysis.rows ?? [], rowNames, "row", ["evaluation", "analyses", i, "rows"]);
    check(analysis.columns ?? [], columnNames, "column", ["evaluation", "analyses", i, "columns"]);
  }
}

/** Checks options before hours of training. Returns the names of the attacks' metrics. */
async function checkEvaluation(
  { evaluation, artifacts }: SweepSettings,
  { trust }: ModulePolicy,
  locate: (path: KeyPath) => string,
): Promise<string[]> {
  if (artifacts.models === "none" && evaluation.analyses.length > 0)
    throw new UserError(`${locate(["artifacts", "models"])}: analyses need the models. Use selected instead of none.`);
  const names: string[] = [];
  for (const [attack, options] of Object.entries(evaluation.attacks)) {
    const canCheck = !(isModulePath(attack) && trust === "none");
    const locateOption = (path: KeyPath): string => locate(["evaluation", "attacks", attack, ...path]);
    names.push(canCheck ? await checkAttack(attack, options, locateOption) : attack);
  }
  for (const [column, options] of Object.entries(evaluation.columns))
    validate(attackOptionsSchema, options, (path) => locate(["evaluation", "columns", column, ...path]));
  for (const [i, { kind, options }] of evaluation.analyses.entries()) {
    const schema = analyses.get(kind)!.request.omit({ analysis: true, runs: true, out: true });
    validate(schema, options, (path) => `${locate(["evaluation", "analyses", i, "options", ...path])}: ${kind}`);
  }
  return names;
}
