import { UserError } from "../errors.js";
import { splitExamples } from "./split-examples.js";
import type { Example, Split, Task } from "./task.js";

/** The parts that a data set itself comes in. */
export type SourceSplit = "train" | "dev" | "test";

export interface TaskSources {
  readonly name: string;
  readonly labels: readonly string[];
  readonly fields: readonly string[];
  /** All fields where not given. */
  readonly modifiableFields?: readonly number[];
  readonly metrics?: readonly string[];
  readonly read: Partial<Record<SourceSplit, () => Promise<Example[]>>>;
  /** Why it has no train split, for those that only report. */
  readonly noTrainReason?: string;
  /** For a set that comes whole: how much of it is kept for the test, and what holds examples together besides their text. */
  readonly testFraction?: number;
  readonly getKey?: (example: Example) => string;
}

/** What selection takes from train where nothing else may select: a tenth, at most 2,000 examples. */
const validationPart = { fraction: 0.1, atMost: 2000 };

/**
 * Makes a task of what a data set comes in, so that selection never sees what is reported:
 * - train, dev and test: dev selects, test reports;
 * - train and one more: a `select` split cut from train selects, the other one reports;
 * - one part alone called train: cut into train, select and test;
 * - no train: it only reports.
 */
export function createTask(sources: TaskSources): Task {
  const { name, labels, fields, metrics = ["accuracy"] } = sources;
  const given = (["train", "dev", "test"] as const).filter((split) => sources.read[split] !== undefined);
  const loaders = new Map<Split, () => Promise<Example[]>>();
  const readers = new Map(given.map((split) => [split, once(sources.read[split]!)]));
  for (const [split, read] of readers) loaders.set(split, read);

  const train = readers.get("train");
  if (train !== undefined && given.length < 3) {
    const testPart = { fraction: sources.testFraction ?? 0.1 };
    const cut = once(async () => {
      const examples = await train();
      if (given.length === 2)
        return { ...splitExamples(examples, { select: validationPart }, sources.getKey), test: [] };
      return splitExamples(examples, { test: testPart, select: validationPart }, sources.getKey);
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
    modifiableFields: sources.modifiableFields ?? fields.map((_, index) => index),
    metrics,
    splits,
    selectSplit: given.length === 3 ? "dev" : "select",
    reportSplit: splits.includes("test") ? "test" : "dev",
    async load(split) {
      const loader = loaders.get(split);
      if (loader !== undefined) return [...(await loader())];
      const reason = sources.noTrainReason === undefined ? "" : `; ${sources.noTrainReason}`;
      throw new UserError(`${name} has no ${split} split: it has ${splits.join(", ")}${reason}`);
    },
  };
}

/** The same promise to everyone who asks: a file is read once however many splits are cut from it. */
export function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make();
    return made;
  };
}
