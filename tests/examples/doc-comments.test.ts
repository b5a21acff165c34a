import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";

/** The entry points. Of two exports with the same name, an example means that of its own entry, then the first. */
const entries: Readonly<Record<string, string>> = {
  "temper-nlp": "src/index.ts",
  "temper-nlp/methods": "src/methods/index.ts",
  "temper-nlp/attacks": "src/attacks/index.ts",
  "temper-nlp/models": "src/models/public.ts",
  "temper-nlp/tensor": "src/tensor/public.ts",
  "temper-nlp/nn": "src/nn/public.ts",
  "temper-nlp/analysis": "src/analysis/index.ts",
  "temper-nlp/certificates": "src/proofs/certificates/index.ts",
};

/** What examples use without saying where it comes from. */
const context: Readonly<Record<string, string>> = {
  definition: 'Parameters<typeof import("temper-nlp/certificates").defineCertificate>[0]',
  error: "unknown",
  examples: 'readonly import("temper-nlp").Example[]',
  features: 'import("temper-nlp/tensor").Tensor',
  gradient: 'import("temper-nlp/tensor").Tensor',
  input: 'Parameters<typeof import("temper-nlp/models").forward>[2]',
  inputs: "AsyncIterable<{ readonly texts: readonly string[]; readonly line: number }>",
  labels: 'import("temper-nlp/tensor").Tensor',
  logits: 'import("temper-nlp/tensor").Tensor',
  model: 'import("temper-nlp/models").Model & import("temper-nlp").TextClassifier & string',
  predictor: 'import("temper-nlp/attacks").Predictor',
  request: 'import("temper-nlp").AttackRequest & import("temper-nlp").TrainRequest',
  run: 'import("temper-nlp").Run',
  scoreTexts: "(texts: readonly (readonly string[])[]) => Promise<readonly (readonly number[])[]>",
  task: 'import("temper-nlp").Task',
  weights: 'Map<string, import("temper-nlp/tensor").Tensor>',
  x: 'import("temper-nlp/tensor").Tensor',
};

interface Export {
  readonly name: string;
  readonly entry: string;
}

/** The names that a file exports: pairs of the name in the sources and the public one. */
function listNames(file: string): [string, string][] {
  const text = readFileSync(file, "utf8");
  const lists = [...text.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(([, names]) =>
    names!.split(",").map((name) => name.trim().replace(/^type /, "")),
  );
  const own = [
    ...text.matchAll(/^export (?:async )?(?:function\*?|class|interface|type|const) (\w+)/gm),
    ...text.matchAll(/^export \* as (\w+)/gm),
  ].map(([, name]) => name!);
  const all = [...lists, ...own].filter((name) => name !== "");
  return [
    ...all.map((each): [string, string] => [each.split(" as ")[0]!, each.split(" as ").at(-1)!]),
    ...[...text.matchAll(/^export \* from "(.*)\.js"/gm)].flatMap(([, path]) =>
      listNames(join(dirname(file), `${path}.ts`)),
    ),
  ];
}

/** The exports of the entry points, by their names in the sources. */
function listExports(): Map<string, Export[]> {
  const found = new Map<string, Export[]>();
  for (const [entry, file] of Object.entries(entries))
    for (const [source, name] of listNames(file)) found.set(source, [...(found.get(source) ?? []), { name, entry }]);
  return found;
}

/** The code in a doc comment: what follows @example, or what is indented. */
function readExample(comment: string): string {
  const lines = comment.split("\n").map((line) => line.replace(/^\s*\* ?/, ""));
  const start = lines.findIndex((line) => line.startsWith("@example"));
  if (start < 0) {
    const code = lines.flatMap((line) => (/^ {4}/.test(line) ? [line.slice(4)] : [])).join("\n");
    // Equations are indented, too.
    return code.includes(";") ? code : "";
  }
  const rest = lines.slice(start + 1);
  const end = rest.findIndex((line) => line.startsWith("@"));
  return rest.slice(0, end < 0 ? undefined : end).join("\n");
}

/** The examples of what the entry points export, and of the entry points themselves. */
function listExamples(
  exports: ReadonlyMap<string, readonly Export[]>,
): { title: string; name: string; code: string; entry: string }[] {
  const declaration =
    /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n(?:export )?(?:async )?(?:function\*?|class|interface|type|const) (\w+)|^\/\*\*((?:(?!\*\/)[\s\S])*@module(?:(?!\*\/)[\s\S])*)\*\//g;
  const files = readdirSync("src", { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  return files.flatMap((file) =>
    [...readFileSync(join("src", file), "utf8").matchAll(declaration)].flatMap(([, comment, name = "", module]) => {
      const entry = module
        ? (Object.keys(entries).find((each) => entries[each] === `src/${file}`) ?? "temper-nlp")
        : exports.get(name)?.[0]?.entry;
      const code = readExample(module ?? comment!);
      return entry === undefined || code.trim() === "" ? [] : [{ title: `${file} ${name}`, name, code, entry }];
    }),
  );
}

/** The names that a program uses without declaring them. */
function listMissing(code: string): string[] {
  const [declared, used] = [new Set<string>(), new Set<string>()];
  const visit = (node: ts.Node): void => {
    const { parent } = node;
    if (ts.isIdentifier(node)) {
      const isDeclared =
        (ts.isVariableDeclaration(parent) ||
          ts.isBindingElement(parent) ||
          ts.isParameter(parent) ||
          ts.isImportSpecifier(parent)) &&
        parent.name === node;
      const isKey =
        (ts.isPropertyAccessExpression(parent) || ts.isPropertyAssignment(parent) || ts.isMethodDeclaration(parent)) &&
        parent.name === node;
      if (isDeclared) declared.add(node.text);
      else if (!isKey && !(ts.isBindingElement(parent) && parent.propertyName === node)) used.add(node.text);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile("example.ts", code, ts.ScriptTarget.ES2023, true));
  return [...used].filter((name) => !declared.has(name));
}

/** A module with an example, the imports that it leaves out, and what it takes as given. */
function createProgram(code: string, entry: string, exports: ReadonlyMap<string, readonly Export[]>): string {
  const missing = listMissing(code);
  const all = [...exports.values()].flat();
  const lines = missing.flatMap((name) => {
    const found = all.filter((each) => each.name === name);
    const own = found.find((each) => each.entry === entry) ?? (context[name] ? undefined : found[0]);
    if (own) return [`import { ${name} } from "${own.entry}";`];
    return context[name] ? [`declare const ${name}: ${context[name]};`] : [];
  });
  return `${[...lines, code, "export {};"].join("\n")}\n`;
}

test("the examples of doc comments compile", () => {
  const exports = listExports();
  const examples = listExamples(exports);
  expect(examples.length).toBeGreaterThan(60);
  // Inside the checkout, so that the compiler finds the packages that the types name.
  const folder = join("build", "doc-examples");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const [i, { title, code, entry }] of examples.entries())
    writeFileSync(join(folder, `${i}.ts`), `// ${title}\n${createProgram(code, entry, exports)}`);
  const paths = Object.fromEntries(Object.entries(entries).map(([name, file]) => [name, [`../../${file}`]]));
  const compilerOptions = {
    ...{ paths, noUnusedLocals: false, verbatimModuleSyntax: false },
  };
  const config = { extends: "../../tsconfig.json", compilerOptions, include: ["*.ts"], exclude: [] };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  const compiler = "node_modules/typescript-7/bin/tsc";
  const { stdout } = spawnSync(process.execPath, [compiler, "-p", folder, "--noEmit"], { encoding: "utf8" });
  const problems = stdout.replaceAll(/build\/doc-examples\/(\d+)\.ts/g, (_, i) => examples[Number(i)]!.title);
  expect(problems).toBe("");
});

test("everything that the main entry point exports has an example", () => {
  const exports = listExports();
  const known = new Set(listExamples(exports).map(({ name }) => name));
  const names = [...exports].filter(([, found]) => found.some(({ entry }) => entry === "temper-nlp"));
  expect(names.length).toBeGreaterThanOrEqual(25);
  expect(names.length).toBeLessThanOrEqual(80);
  // zod has its own documentation.
  expect(names.map(([name]) => name).filter((name) => !known.has(name))).toEqual(["z"]);
});
