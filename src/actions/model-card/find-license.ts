import { dirname, join } from "node:path";
import { parse } from "yaml";
import { exists, readText } from "../../base/files.js";
import { resolveModel } from "../../models/checkpoint/resolve-model.js";

/**
 * Finds the license of a local model, for the card of a model made from it: in the metadata of its
 * README.md, or in package.json. Null if it is unknown.
 */
export async function findLicense(reference: string): Promise<string | null> {
  const isLocal = reference.startsWith("npm:") || (await exists(reference));
  if (!isLocal) return null;
  const found = await resolveModel(reference).catch(() => null);
  if (found === null) return null;
  const readme = join(found.folder, "README.md");
  if (await exists(readme)) {
    const [, metadata] =
      /^---\n([\s\S]*?)\n---/.exec(await readText(readme, "the model card", { kind: "settings" })) ?? [];
    const license = readLicense(metadata === undefined ? null : parse(metadata));
    if (license !== null) return license;
  }
  if (found.source !== "npm") return null;
  for (const folder of [found.folder, dirname(found.folder)]) {
    const manifest = join(folder, "package.json");
    if (!(await exists(manifest))) continue;
    return (
      readLicense(JSON.parse(await readText(manifest, "the package", { kind: "settings" })))?.toLowerCase() ?? null
    );
  }
  return null;
}

function readLicense(data: unknown): string | null {
  const license = (data as { license?: unknown } | null)?.license;
  return typeof license === "string" ? license : null;
}
