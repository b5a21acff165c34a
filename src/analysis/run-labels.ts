import { UserError } from "../base/errors.js";
import { methods } from "../methods/index.js";
import type { RunFolder } from "../runs/run-folder.js";
import type { RunConfig } from "../settings/config.js";

/** Settings that say where a run is computed, not what. */
const runtimeKeys: ReadonlySet<string> = new Set(["device", "threads", "precision", "cudaGraphs"]);

function resolveMethodOptions(config: RunConfig): Record<string, unknown> {
  return Object.fromEntries(
    config.methods.flatMap(({ name, options }) => {
      const resolved = methods.get(name)?.options.safeParse(options).data ?? options;
      return Object.entries(resolved as object).map(([key, value]) => [`${name}.${key}`, value]);
    }),
  );
}

/** Every setting that decides the results of a run, except the seed, as text by its full key. */
export function listSettings({ seed: _, methods: specs, train, ...rest }: RunConfig): Record<string, string> {
  const settings = Object.fromEntries([
    ["methods", specs.map(({ name }) => name)],
    ...Object.entries(rest).filter(([key]) => !runtimeKeys.has(key)),
    ...Object.entries(train).map(([key, value]) => [`train.${key}`, value]),
    ...Object.entries(resolveMethodOptions({ methods: specs } as RunConfig)),
  ]) as Record<string, unknown>;
  return Object.fromEntries(
    Object.entries(settings).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]),
  );
}

/** Short names that tell runs apart: the methods, then differing settings: "ascc (beta 4)". */
export function labelRuns(runs: readonly RunFolder[], { ignoreSeed = false } = {}): string[] {
  const settings = runs.map(({ config }) => ({
    ...listSettings(config),
    ...(!ignoreSeed && { seed: String(config.seed) }),
  }));
  return runs.map(({ method, folder }, i) => {
    const own: Record<string, string> = settings[i]!;
    const rivals: Record<string, string>[] = settings.filter((_, j) => runs[j]!.method === method);
    const differing = Object.keys(own).filter((key) => rivals.some((rival) => rival[key] !== own[key]));
    const shorten = (key: string): string => key.replace(/^.*\./, "");
    const isAmbiguous = (key: string): boolean =>
      differing.some((other) => other !== key && shorten(other) === shorten(key));
    const details = differing.map((key) => `${isAmbiguous(key) ? key : shorten(key)} ${own[key]}`);
    const isRepeated = rivals.filter((rival) => JSON.stringify(rival) === JSON.stringify(own)).length > 1;
    if (isRepeated) details.push(folder);
    return details.length > 0 ? `${method} (${details.join(", ")})` : method;
  });
}

/** Labels without the seed: runs that differ only in their seeds have the same one. */
export function labelGroups(runs: readonly RunFolder[]): string[] {
  const keys = runs.map(({ config }) => JSON.stringify(listSettings(config)));
  const firsts = runs.filter((_, i) => keys.indexOf(keys[i]!) === i);
  const labels = labelRuns(firsts, { ignoreSeed: true });
  return keys.map((key) => labels[firsts.indexOf(runs[keys.indexOf(key)]!)]!);
}

/** A run's value of `beta`, `rift.alpha` or a setting such as `train.learningRate`, or null. */
export function getOption({ config, folder }: RunFolder, name: string): string | number | null {
  const options = resolveMethodOptions(config);
  const found = Object.keys(options).filter((key) => key === name || key.endsWith(`.${name}`));
  if (found.length > 1)
    throw new UserError(`${folder}: several of its methods have the option ${name}. Use one of ${found.join(", ")}.`);
  const settings: Record<string, unknown> = { ...config.train, ...config };
  const value = found.length === 1 ? options[found[0]!] : settings[name.replace(/^train\./, "")];
  if (value === undefined || value === null) return null;
  return typeof value === "number" || typeof value === "string" ? value : JSON.stringify(value);
}
