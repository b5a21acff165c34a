import { writeFileSync } from "node:fs";
import { basename, extname } from "node:path";

/**
 * Writes a module that defines an attack with this search, and returns its path. The attack has the
 * name of the file. `code` runs when the module is imported.
 */
export function writeAttack(path: string, run: string, code = ""): string {
  writeFileSync(
    path,
    `import { z } from "${import.meta.resolve("zod")}";
    import { defineAttack } from "${import.meta.resolve("../../dist/attacks/define-attack.js")}";
    import { untargeted } from "${import.meta.resolve("../../dist/attacks/goals.js")}";
    import { expand, score } from "${import.meta.resolve("../../dist/attacks/protocol.js")}";
    ${code}
    export default defineAttack({
      name: "${basename(path, extname(path))}",
      summary: "an example",
      paper: "none",
      options: z.strictObject({ word: z.string().default("c") }),
      resources: [],
      build: ({ word }) => ({
        goal: untargeted,
        transformations: [{
          name: "one word",
          kind: "swap",
          apply: (text, positions) => positions.map((position) => text.apply({ kind: "replace", position, word })),
        }],
        constraints: [],
        search: { name: "the last candidate", cost: "2", *run(problem) { ${run} } },
      }),
    });`,
  );
  return path;
}
