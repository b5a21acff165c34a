import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../temporary.js";

export type Json = Record<string, Record<string, unknown>>;
export const readTokenizer = (folder: string): Json => JSON.parse(readFileSync(join(folder, "tokenizer.json"), "utf8"));

const scratch = temporaryFolder();

/** Creates a folder with these files. Objects are written as JSON. */
export function createFolder(name: string, files: Record<string, unknown>): string {
  const folder = join(scratch, name);
  mkdirSync(folder, { recursive: true });
  for (const [file, content] of Object.entries(files))
    writeFileSync(join(folder, file), typeof content === "string" ? content : JSON.stringify(content));
  return folder;
}

/** Creates a folder with a changed tokenizer.json. */
export function changeTokenizer(name: string, from: string, change: (file: Json) => void): string {
  const file = readTokenizer(from);
  change(file);
  return createFolder(name, { "tokenizer.json": file });
}
