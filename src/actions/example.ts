import { existsSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import type { Callbacks } from "../base/events.js";
import { createFolder, writeFileAtomic } from "../base/files.js";
import { countSchema, validate } from "../base/validate.js";
import { type Example, loadTask } from "../tasks/index.js";

/** The files of the tutorial: labeled emails, and emails without labels. */
export const exampleNames = ["emails.csv", "new.csv"] as const;
/** Emails that are in new.csv, and not in emails.csv. */
const numNew = 8;
const maxCharacters = 160;

export const exampleRequestSchema = z.strictObject({
  names: z
    .array(z.enum(exampleNames))
    .min(1)
    .describe(`files to write: ${exampleNames.join(" or ")}`),
  out: z.string().default(".").describe("folder of the files"),
  size: countSchema.min(20).default(400).describe("emails in both files together"),
});
/** Writes files of the tutorial from the emails of temper-nlp-demo. Returns their paths. */
export async function writeExample(
  request: z.input<typeof exampleRequestSchema>,
  { onEvent }: Callbacks = {},
): Promise<string[]> {
  const { names, out, size } = validate(exampleRequestSchema, request, "example");
  const paths = names.map((name) => join(out, name));
  const existing = paths.find((path) => existsSync(path));
  if (existing !== undefined) throw new UserError(`${existing} already exists. Move it, or choose a different --out.`);
  const task = await loadTask({ task: "spam", onEvent });
  const all = await task.load("train");
  const byLabel = task.labels.map((_, label) => all.filter((example) => example.label === label));
  const picked = Array.from({ length: size }, (_, i) => byLabel[i % 2]![i >> 1]).filter((each) => each !== undefined);
  createFolder(out);
  for (const [i, name] of names.entries()) {
    const lines =
      name === "emails.csv"
        ? [
            "id,email,spam",
            ...picked.slice(numNew).map((example, row) => `${formatEmail(example, row)},${example.label}`),
          ]
        : ["id,email", ...picked.slice(0, numNew).map(formatEmail)];
    await writeFileAtomic(paths[i]!, `${lines.join("\n")}\n`);
  }
  return paths;
}

/** The ID and the beginning of an email, quoted as spreadsheets do. */
function formatEmail({ texts }: Example, row: number): string {
  const text = texts.join(" ").replace(/\s+/g, " ").slice(0, maxCharacters).replaceAll('"', '""');
  return `${row + 1},"${text}"`;
}
