import { UserError } from "../../base/errors.js";
import { exists, readJson } from "../../base/files.js";
import { describeDifference, findDifference, type VerifiedClass } from "../../base/verification.js";

/** A summary that was computed again. */
export const summaryClass: VerifiedClass = { count: 1, what: "summary recomputed", isVerified: true };

/**
 * Compares the summary that a command wrote beside a journal with the one of its lines. Returns
 * false if there is no such file. `ignored` keys do not come from the lines.
 */
export async function checkSummary(path: string, computed: object, ignored: readonly string[]): Promise<boolean> {
  if (!(await exists(path))) return false;
  const found = (await readJson(path, "the summary of the journal", { kind: "settings" })) as object;
  const values = computed as Readonly<Record<string, unknown>>;
  const recorded = Object.fromEntries(Object.entries(found).filter(([key]) => !ignored.includes(key)));
  // Earlier versions wrote fewer keys.
  const expected = Object.fromEntries(Object.keys(recorded).map((key) => [key, values[key]]));
  const difference = findDifference(recorded, [expected]);
  if (!difference) return true;
  const what = describeDifference(difference, "its journal", "the summary");
  throw new UserError(`${path}: ${what}. Remove the file, or run the command that wrote it again.`);
}
