import { UserError } from "../errors.js";
import { cutParts } from "./split.js";
import type { Example, Split, Task } from "./task.js";

/** The parts that a data set itself comes in. */
export type SourceSplit = "train" | "dev" | "test";

export interface TaskSources {
  readonly name: string;
  readonly labels: readonly string[];
  readonly fields: readonly string[];
  /** All fields where not given. */
  readonly openFields?: readonly number[];
  readonly metrics?: readonly string[];
  readonly read: Partial<Record<SourceSplit, () => Promise<Example[]>>>;
  /** Why it has no train split, for those that only report. */
  readonly onlyReports?: string;
  /** For a set that comes whole: how much of it is kept for the test, and what holds examples together besides their text. */
  readonly testShare?: number;
  readonly keyOf?: (example: Example) => string;
}

/** What selection takes from train where nothing else may select: a tenth, at most 2,000 examples. */
const selectPart = { share: 0.1, atMost: 2000 };

/**
 * Makes a task of what a data set comes in, so that selection never sees what is reported:
 * - train, dev and test: dev selects, test reports;
 * - train and one more: a `select` split cut from train selects, the other one reports;
 * - one part alone called train: cut into train, select and test;
 * - no train: it only reports.
 */
export function makeTask(sources: TaskSources): Task {
  const { name, labels, fields, metrics = ["accuracy"] } = sources;
  const given = (["train", "dev", "test"] as const).filter((split) => sources.read[split] !== undefined);
  const loaders = new Map<Split, () => Promise<Example[]>>();
  const once = new Map(given.map((split) => [split, remember(sources.read[split]!)]));
  for (const [split, read] of once) loaders.set(split, read);

  const train = once.get("train");
  if (train !== undefined && given.length < 3) {
    const testPart = { share: sources.testShare ?? 0.1 };
    const cut = remember(async () => {
      const examples = await train();
      if (given.length === 2) return { ...cutParts(examples, { select: selectPart }, sources.keyOf), test: [] };
      return cutParts(examples, { test: testPart, select: selectPart }, sources.keyOf);
    });
    loaders.set("train", async () => (await cut()).rest);
    loaders.set("select", async () => (await cut()).select);
    if (given.length === 1) loaders.set("test", async () => (await cut()).test);
  }

  const splits = (["train", "select", "dev", "test"] as const).filter((split) => loaders.has(split));
  return {
    name,
    labels,
    fields,
    openFields: sources.openFields ?? fields.map((_, index) => index),
    metrics,
    splits,
    selectSplit: given.length === 3 ? "dev" : "select",
    reportSplit: splits.includes("test") ? "test" : "dev",
    async load(split) {
      const loader = loaders.get(split);
      if (loader !== undefined) return [...(await loader())];
      const reason = sources.onlyReports === undefined ? "" : `; ${sources.onlyReports}`;
      throw new UserError(`${name} has no ${split} split: it has ${splits.join(", ")}${reason}`);
    },
  };
}

/** The same promise to everyone who asks: a file is read once however many splits are cut from it. */
export function remember<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make();
    return made;
  };
}
