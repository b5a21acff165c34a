import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";
import { listNumericTests } from "../../tools/cpus/list-tests.mjs";
import { formatRepeatCommand } from "../../tools/cpus/repeat-command.mjs";
import { mutations } from "../../tools/mutations/list.mjs";

test("the tests that touch numbers are found through what they load", () => {
  const found = listNumericTests();
  const numeric = [
    // By an import, by an import of an import, by the name of the package, and by the name of a program.
    "tests/tensor/native.test.ts",
    "tests/methods/rose/rose.test.ts",
    "tests/examples/examples.test.ts",
    "tests/scripts/released-parity.test.ts",
  ];
  expect(found).toEqual(expect.arrayContaining(numeric));
  for (const file of ["tests/text/words.test.ts", "tests/scripts/setup/find.test.ts", "tests/studio/browser.test.ts"])
    expect(found).not.toContain(file);
});

test("a failed test is repeated with the variables that were set", () => {
  const env = { TEMPER_JITTER: "7", OMP_NUM_THREADS: "2", HOME: "/root" };
  expect(formatRepeatCommand(env, "tests/a.test.ts", ["it's (a)", "adds 1 + 1"])).toBe(
    "OMP_NUM_THREADS=2 TEMPER_JITTER=7 npx vitest run tests/a.test.ts -t 'it'\\''s \\(a\\) adds 1 \\+ 1'",
  );
  expect(formatRepeatCommand(env, "tests/a.test.ts")).toBe(
    "OMP_NUM_THREADS=2 TEMPER_JITTER=7 npx vitest run tests/a.test.ts",
  );
  expect(formatRepeatCommand({}, "tests/a.test.ts", ["x"])).toBeNull();
});

test("an unknown setting is an error that lists the settings", () => {
  const { status, stderr } = spawnSync(process.execPath, ["tools/test-cpus.mjs", "avx3"], { encoding: "utf8" });
  expect(status).toBe(2);
  expect(stderr).toMatch(/^avx3: expected a test file, .*threads-N, jitter-N or one of: aten-default, /);
});

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

test.each(mutations.map((mutation) => [mutation.name, mutation] as const))(
  "make check-mutations finds the place of a planted mistake: %s",
  (_name, { file, find, tests }) => {
    expect(readFileSync(`src/${file}`, "utf8").split(find)).toHaveLength(2);
    expect(tests.filter((path) => !existsSync(path))).toEqual([]);
  },
);
