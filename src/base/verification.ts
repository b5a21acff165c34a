/** Counts the parts of a file that a verification treated in one way. */
export interface VerifiedClass {
  readonly count: number;
  /** Their name and their check, such as "certificates recomputed from model and text". */
  readonly what: string;
  /** False if nothing but the file says what they record. */
  readonly isVerified: boolean;
}

/** A file whose content was computed again. */
export interface FileVerification {
  readonly journal: string;
  readonly header?: object;
  /** The texts or claims that it is about. */
  readonly lines: number;
  readonly classes: readonly VerifiedClass[];
}

/** A header that only names its data: another file with the same texts could name them otherwise. */
export const namedDataClass: VerifiedClass = {
  count: 1,
  what: "header that names the task and the split",
  isVerified: false,
};

/** A leaf of a value that was not computed. */
export interface Difference {
  /** The keys that lead to it, such as "certified.0.accuracy"; empty for the value itself. */
  readonly path: string;
  readonly recorded: unknown;
  readonly computed: unknown;
}

/**
 * Compares every key of a recorded value with those of several computations, which may differ in
 * their rounding. A number must lie between those that were computed, and any other leaf must be one
 * of them. Returns the first leaf that does not hold; null if there is none.
 */
export function findDifference(recorded: unknown, computed: readonly unknown[], path = ""): Difference | null {
  if (computed.some((each) => each === recorded)) return null;
  if (typeof recorded === "number") {
    const numbers = computed.filter((each) => typeof each === "number");
    if (recorded >= Math.min(...numbers) && recorded <= Math.max(...numbers)) return null;
  }
  const alike = isContainer(recorded) ? computed.filter((each) => isAlike(recorded, each)) : [];
  const [first] = alike;
  if (!isContainer(recorded) || !first) return { path, recorded, computed: computed[0] };
  for (const key of Object.keys({ ...first, ...recorded })) {
    const found = findDifference(
      recorded[key],
      alike.map((each) => each[key]),
      path === "" ? key : `${path}.${key}`,
    );
    if (found) return found;
  }
  return null;
}

type Container = Readonly<Record<string, unknown>>;

function isContainer(value: unknown): value is Container {
  return typeof value === "object" && value !== null;
}

/** Lists are compared with those of their length. */
function isAlike(recorded: Container, value: unknown): value is Container {
  if (!isContainer(value) || Array.isArray(recorded) !== Array.isArray(value)) return false;
  return !Array.isArray(recorded) || recorded.length === value.length;
}

/** Describes a difference. `source` is what computed the other value. */
export function describeDifference(
  { path, recorded, computed }: Difference,
  source: string,
  file = "the journal",
): string {
  return `${path}: ${file} says ${JSON.stringify(recorded)}, ${source} gives ${JSON.stringify(computed)}`;
}
