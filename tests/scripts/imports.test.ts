import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";

/** The names that a script imports from dist/, with the source file of each. */
function listDistImports(script: string): { source: string; names: string[] }[] {
  const text = readFileSync(script, "utf8");
  const imports = [...text.matchAll(/import \{([^}]+)\} from "([^"]*\/dist\/[^"]+)"/g)].map(
    ([, names, path]) => [names, relative(resolve("dist"), resolve(dirname(script), path!))] as const,
  );
  // Some tools load a module of dist/ by its name, with or without its extension.
  const loads = [...text.matchAll(/const \{([^}]+)\} = await (?:context\.)?load\("([^"]+)"\)/g)].map(
    ([, names, path]) => [names, `${path!.replace(/\.js$/, "")}.js`] as const,
  );
  return [...imports, ...loads].map(([names, path]) => ({
    source: `src/${path.replace(/\.js$/, ".ts")}`,
    names: names!
      .split(",")
      .map((name) => name.trim().split(" as ")[0]!)
      .filter((name) => name !== ""),
  }));
}

/** The names that a source file exports, including those of `export * from`. */
function listExports(file: string): string[] {
  const { statements } = ts.createSourceFile(file, readFileSync(file, "utf8"), ts.ScriptTarget.Latest);
  return statements.flatMap((statement) => {
    if (ts.isExportDeclaration(statement)) {
      const { exportClause, moduleSpecifier } = statement;
      if (exportClause) {
        const named = ts.isNamedExports(exportClause) ? [...exportClause.elements] : [exportClause];
        return named.map(({ name }) => name.text);
      }
      const target = (moduleSpecifier as ts.StringLiteral).text.replace(/\.js$/, ".ts");
      return listExports(join(dirname(file), target));
    }
    const { modifiers, name, declarationList } = statement as {
      modifiers?: ts.NodeArray<ts.Node>;
      name?: ts.Identifier;
      declarationList?: ts.VariableDeclarationList;
    };
    if (!modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)) return [];
    const names = name ? [name] : (declarationList?.declarations ?? []).map((declaration) => declaration.name);
    return names.flatMap((each) => (ts.isIdentifier(each) ? [each.text] : []));
  });
}

const scripts = ["scripts", "tools"].flatMap((folder) =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".mjs"))
    .map((name) => join(folder, name)),
);

// Benchmarks and GPU checks are plain JavaScript that no other test runs.
test("the scripts and tools import only names that the sources export", () => {
  const all = scripts.flatMap((script) => listDistImports(script).map((each) => ({ script, ...each })));
  expect(all.length).toBeGreaterThan(20);
  const sources = [...new Set(all.map(({ source }) => source))];
  expect(sources.filter((source) => !existsSync(source))).toEqual([]);
  const findings = all.flatMap(({ script, source, names }) => {
    const exported = new Set(listExports(source));
    return names.filter((name) => !exported.has(name)).map((name) => `${script}: ${name} of ${source}`);
  });
  expect(findings).toEqual([]);
});
