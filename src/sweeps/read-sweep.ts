import { basename, extname } from "node:path";
import { checkAttack } from "../attacks/index.js";
import { didYouMean } from "../did-you-mean.js";
import { UserError } from "../errors.js";
import { parseAssignment, readYaml } from "../runs/read-config.js";
import { validate } from "../validate.js";
import { type ConfigObject, ConfigOverlay, isConfigObject, type KeyPath } from "./config-overlay.js";
import { runConfigKeys, type SweepSettings, sweepFileSchema } from "./schema.js";

/** A sweep file, read and checked as far as no run of it is looked at. */
export interface SweepFile {
  readonly name: string;
  readonly profile: string | null;
  readonly settings: SweepSettings;
  /** The settings of a run that all runs share. */
  readonly baseConfig: ConfigObject;
  /** The place of a part of the sweep in its file: file:line:column. */
  readonly locate: (path: KeyPath) => string;
}

const setFlag = "--set";

/** The maps in which a profile takes an entry away by null. */
const removableMaps = ["rows", "columns", "grid", "averages"];

/** Reads a sweep file; a profile's settings go over the file's, and `--set` assignments (limit=500, then.examples=20) over both. */
export async function readSweep(
  file: string,
  profile: string | null = null,
  set: readonly string[] = [],
): Promise<SweepFile> {
  const located = await readYaml(file);
  if (!isConfigObject(located.value))
    throw new UserError(`${file}: expected a sweep (settings of a run, rows, columns, grid, seeds, …)`);
  const { profiles = {}, ...content } = located.value;
  const whole = new ConfigOverlay().add(content, []);
  if (profile !== null) whole.add(getProfile(profiles, profile, file), ["profiles", profile]);
  const allColumns = Object.keys(isConfigObject(whole.config.columns) ? whole.config.columns : {});
  if (profile !== null) removeNulls(whole.config, (profiles as Record<string, ConfigObject>)[profile]!);
  const place = (path: KeyPath): string => {
    const origin = whole.getOrigin(path);
    return origin[0] === setFlag ? setFlag : located.where(origin);
  };
  for (const [key, value] of set.map(parseAssignment)) whole.set(key, value, [setFlag], place);
  const settings = validate(sweepFileSchema, whole.config, place) as SweepSettings;
  checkNames(settings, allColumns, place);
  for (const [attack, options] of Object.entries(settings.evaluation.attacks))
    await checkAttack(attack, options, (path) => place(["then", "attacks", attack, ...path]));
  const base = Object.fromEntries(Object.entries(whole.config).filter(([key]) => runConfigKeys.includes(key)));
  return { name: basename(file, extname(file)), profile, settings, baseConfig: base, locate: place };
}

function getProfile(profiles: unknown, name: string, file: string): ConfigObject {
  const known = isConfigObject(profiles) ? profiles : {};
  const found = known[name];
  if (isConfigObject(found)) return found;
  const names = Object.keys(known);
  const offer = names.length > 0 ? `it has ${names.join(", ")}` : "it has none";
  throw new UserError(`${file}: --profile ${name}: there is no such profile${didYouMean(name, names)}; ${offer}`);
}

/** Takes away what the profile names with null. */
function removeNulls(tree: ConfigObject, patch: ConfigObject): void {
  for (const map of removableMaps) {
    for (const [key, value] of Object.entries(isConfigObject(patch[map]) ? patch[map] : {}))
      if (value === null) delete (tree[map] as ConfigObject)[key];
  }
}

/** Names of rows and columns must be of those that there are. */
function checkNames(
  { rows, columns, averages, baseline, evaluation: then }: SweepSettings,
  allColumns: readonly string[],
  place: (path: KeyPath) => string,
): void {
  const check = (name: string, known: readonly string[], what: string, path: KeyPath): void => {
    if (known.includes(name)) return;
    throw new UserError(
      `${place(path)}: there is no ${what} ${name}${didYouMean(name, known)}; the ${what}s are ${known.join(", ")}`,
    );
  };
  const [rowNames, columnNames] = [Object.keys(rows), Object.keys(columns)];
  if (baseline !== null) check(baseline, rowNames, "row", ["baseline"]);
  for (const [name, list] of Object.entries(averages))
    for (const [i, column] of list.entries()) check(column, columnNames, "column", ["averages", name, i]);
  for (const [row, given] of Object.entries(rows))
    for (const column of Object.keys(given.columns ?? {}))
      check(column, allColumns, "column", ["rows", row, "columns", column]);
  for (const [i, analysis] of then.analyses.entries()) {
    for (const row of analysis.rows ?? []) check(row, rowNames, "row", ["then", "analyses", i, "rows"]);
    for (const column of analysis.columns ?? [])
      check(column, columnNames, "column", ["then", "analyses", i, "columns"]);
  }
}
