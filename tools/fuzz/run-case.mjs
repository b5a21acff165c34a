import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { Random } from "./mutate.mjs";

/** The damaged files of a case. They depend only on the target, the number and the seeds. */
export function makeFiles(target, name, number) {
  return target.make(new Random(`${name} ${number}`));
}

/** Runs one case. Returns "ok", "refused", or a failure as an error. */
export async function runCase(target, files) {
  for (const [name, bytes] of Object.entries(files)) {
    mkdirSync(dirname(join(target.folder, name)), { recursive: true });
    writeFileSync(join(target.folder, name), bytes);
  }
  try {
    await target.run(files);
    return "ok";
  } catch (error) {
    return error?.name === "UserError" && !/This is a bug/.test(error.message) ? "refused" : error;
  }
}

/** A failing case as a file: its bytes, so that it can be repeated when seeds or mutations change. */
export function formatCase(name, files, problem) {
  const content = Object.fromEntries(Object.entries(files).map(([path, bytes]) => [path, bytes.toString("base64")]));
  const text = `${JSON.stringify({ target: name, problem, files: content }, null, 1)}\n`;
  return { file: `${name}-${createHash("sha256").update(text).digest("hex").slice(0, 10)}.json`, text };
}
