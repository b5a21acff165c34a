import { basename, extname } from "node:path";
import { checkAttack } from "../attacks/index.js";
import { UserError } from "../errors.js";
import { didYouMean } from "../near-miss.js";
import { parseAssignment, readYaml } from "../runs/read-config.js";
import { validate } from "../validate.js";
import { isTree, Overlay, type Path, type Tree } from "./overlay.js";
import { runKeys, type SweepSettings, sweepFileSchema } from "./schema.js";

/** A sweep file, read and checked as far as no run of it is looked at. */
export interface SweepFile {
  readonly name: string;
  readonly profile: string | null;
  readonly settings: SweepSettings;
  /** The settings of a run that all runs share. */
  readonly base: Tree;
  /** The place of a part of the sweep in its file: file:line:column. */
  readonly place: (path: Path) => string;
}

const flag = "--set";

/** The maps in which a profile takes an entry away by null. */
const removable = ["rows", "columns", "grid", "averages"];

/** Reads a sweep file; a profile's settings go over the file's, and `--set` assignments (limit=500, then.examples=20) over both. */
export async function readSweep(file: string, profile: string | null = null, set: readonly string[] = []): Promise<SweepFile> {
  const located = await readYaml(file);
  if (!isTree(located.value)) throw new UserError(`${file}: expected a sweep (settings of a run, rows, columns, grid, seeds, …)`);
  const { profiles = {}, ...content } = located.value;
  const whole = new Overlay().add(content, []);
  if (profile !== null) whole.add(profileOf(profiles, profile, file), ["profiles", profile]);
  const allColumns = Object.keys(isTree(whole.tree.columns) ? whole.tree.columns : {});
  if (profile !== null) removeNulls(whole.tree, (profiles as Record<string, Tree>)[profile]!);
  const place = (path: Path): string => {
    const origin = whole.originOf(path);
    return origin[0] === flag ? flag : located.where(origin);
  };
  for (const [key, value] of set.map(parseAssignment)) whole.set(key, value, [flag], place);
  const settings = validate(sweepFileSchema, whole.tree, place) as SweepSettings;
  checkNames(settings, allColumns, place);
  for (const [attack, options] of Object.entries(settings.then.attacks))
    await checkAttack(attack, options, (path) => place(["then", "attacks", attack, ...path]));
  const base = Object.fromEntries(Object.entries(whole.tree).filter(([key]) => runKeys.includes(key)));
  return { name: basename(file, extname(file)), profile, settings, base, place };
}

function profileOf(profiles: unknown, name: string, file: string): Tree {
  const known = isTree(profiles) ? profiles : {};
  const found = known[name];
  if (isTree(found)) return found;
  const names = Object.keys(known);
  const offer = names.length > 0 ? `it has ${names.join(", ")}` : "it has none";
  throw new UserError(`${file}: --profile ${name}: there is no such profile${didYouMean(name, names)}; ${offer}`);
}

/** Takes away what the profile names with null. */
function removeNulls(tree: Tree, patch: Tree): void {
  for (const map of removable) {
    for (const [key, value] of Object.entries(isTree(patch[map]) ? patch[map] : {})) if (value === null) delete (tree[map] as Tree)[key];
  }
}

/** Names of rows and columns must be of those that there are. */
function checkNames(
  { rows, columns, averages, baseline, then }: SweepSettings,
  allColumns: readonly string[],
  place: (path: Path) => string,
): void {
  const check = (name: string, known: readonly string[], what: string, path: Path): void => {
    if (known.includes(name)) return;
    throw new UserError(`${place(path)}: there is no ${what} ${name}${didYouMean(name, known)}; the ${what}s are ${known.join(", ")}`);
  };
  const [rowNames, columnNames] = [Object.keys(rows), Object.keys(columns)];
  if (baseline !== null) check(baseline, rowNames, "row", ["baseline"]);
  for (const [name, list] of Object.entries(averages))
    for (const [i, column] of list.entries()) check(column, columnNames, "column", ["averages", name, i]);
  for (const [row, given] of Object.entries(rows))
    for (const column of Object.keys(given.columns ?? {})) check(column, allColumns, "column", ["rows", row, "columns", column]);
  for (const [i, analysis] of then.analyses.entries()) {
    for (const row of analysis.rows ?? []) check(row, rowNames, "row", ["then", "analyses", i, "rows"]);
    for (const column of analysis.columns ?? []) check(column, columnNames, "column", ["then", "analyses", i, "columns"]);
  }
}
