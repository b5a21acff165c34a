import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";

/** The names of an `export { … } from "./…"` and the file they come from. Names of packages have their own docs. */
function listExports(file: string): { name: string; source: string }[] {
  const text = readFileSync(file, "utf8");
  return [...text.matchAll(/^export (?:type )?\{([^}]*)\} from "(\.[^"]+)";/gm)].flatMap(([, names, path]) =>
    names!
      .split(",")
      .map((name) => name.trim().replace(/^type /, ""))
      .filter((name) => name !== "")
      .map((name) => ({ name, source: join(dirname(file), path!.replace(/\.js$/, ".ts")) })),
  );
}

/** The doc comment at the declaration of a name, which may be behind further exports. */
function findDocComment(name: string, file: string): string | null {
  const text = readFileSync(file, "utf8");
  const declaration = new RegExp(
    `(/\\*\\*(?:(?!\\*/)[^])*\\*/)\\n(?:export )?(?:async )?(?:abstract )?(?:function\\*?|class|interface|type|const) ${name}\\b`,
  );
  const found = declaration.exec(text)?.[1];
  if (found) return found;
  for (const [, names, path] of text.matchAll(/^(?:import|export) (?:type )?(\*|\{[^}]*\}) from "(\.[^"]+)";/gm)) {
    if (names !== "*" && !new RegExp(`\\b${name}\\b`).test(names!)) continue;
    const comment = findDocComment(name, join(dirname(file), path!.replace(/\.js$/, ".ts")));
    if (comment) return comment;
  }
  return null;
}

describe("the entry point", () => {
  const exported = listExports("src/index.ts");

  test("exports the actions and their types, name by name", () => {
    expect(exported.length).toBeGreaterThanOrEqual(25);
    expect(exported.length).toBeLessThanOrEqual(80);
  });

  test.each(exported)("$name has a doc comment with an example", ({ name, source }) => {
    const comment = findDocComment(name, source);
    expect(comment, `${name} in ${source}`).not.toBeNull();
    expect(comment).toMatch(/^ \* {5}\S|@example/m);
  });
});
