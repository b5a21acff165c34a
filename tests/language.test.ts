import { readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";

/** One place that breaks a rule, as `file:line: text`. */
type Finding = string;

function listFiles(folder: string, extensions: readonly string[]): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => extensions.includes(extname(name)))
    .map((name) => join(folder, name))
    .sort();
}

const sources = listFiles("src", [".ts", ".tsx"]);
const documents = ["README.md", "CONTRIBUTING.md", ...listFiles("docs", [".md"])];
const everything = [
  ...sources,
  ...documents,
  "Makefile",
  ...listFiles("examples", [".ts"]),
  ...listFiles("experiments", [".yaml"]),
  ...listFiles("scripts", [".mjs", ".py", ".yaml"]),
];

/** Text that must stay as it is: names of random streams, keys of other formats, data. */
const allowed: readonly { readonly file: string; readonly text: string }[] = [
  // The text on which the tokenizer of the tests was trained.
  { file: "tools/fixtures/make-byte-bpe.py", text: "the theatre and the television" },
];

function isAllowed(file: string, line: string): boolean {
  return allowed.some((each) => each.file === file && line.includes(each.text));
}

function findLines(files: readonly string[], breaksRule: (line: string) => boolean): Finding[] {
  return files.flatMap((file) =>
    readFileSync(file, "utf8")
      .split("\n")
      .flatMap((line, i) =>
        breaksRule(line) && !isAllowed(file, line) ? [`${file}:${i + 1}: ${line.trim().slice(0, 140)}`] : [],
      ),
  );
}

/** Fails with the complete list, one place per line. */
function expectNone(findings: readonly Finding[]): void {
  if (findings.length > 0) expect.fail(`${findings.length} places to change:\n${findings.join("\n")}`);
}

const isCommentLine = (line: string): boolean => /^\s*(\/\/|\/\*|\*)/.test(line);
/** A code example in a comment is indented. */
const isExample = (line: string): boolean => /^\s*\* {4,}/.test(line);
const isDirective = (line: string): boolean => /biome-ignore|@ts-expect-error|https?:\/\/\S+$/.test(line);

test("no line of src is longer than 120 columns, and no comment longer than 100", () => {
  expectNone(findLines(sources, (line) => line.length > 120));
  expectNone(
    findLines(sources, (line) => line.length > 100 && isCommentLine(line) && !isExample(line) && !isDirective(line)),
  );
});

test("percentages have no space before the sign", () => {
  expectNone(findLines(everything, (line) => /(\d|\}) %(?=["'`,.;:)|\s]|$)(?! [\w(])/.test(line)));
});

test("spelling is American", () => {
  const british = new RegExp(
    [
      "analys(e|ed|er|ing)\\b",
      "(summar|normal|token|serial|initial|minim|maxim|regular|random|categor|organ|recogn|visual|parallel)is(e|ed|es|er|ing|ation)\\b",
      "optimis(e|ed|es|er|ers|ing|ation)\\b",
      "colour|\\bcentre|neighbour|licence|\\blearnt\\b|\\bspelt\\b|labelled(?!by)|labelling|modelled|modelling",
      "behaviour|favour|honour|artefact|judgement|cancelled|cancelling|\\bgrey\\b",
      "\\bdata sets?\\b|\\bset-up\\b|\\be-mails?\\b|\\bmails?\\b",
    ].join("|"),
    "i",
  );
  // CANCELLED is a state of Slurm.
  expectNone(findLines(everything, (line) => british.test(line.replaceAll("CANCELLED", ""))));
});

test('conditions say "if" or "when", not "where"', () => {
  const condition =
    /\b(null|true|false|none|nothing|undefined|error|only|but|and|or|empty|zero|even|also) where\b(?! to\b)|\bWhere (there|no|neither|nothing|none|this)\b/;
  expectNone(findLines(everything, (line) => condition.test(line)));
});

test('rates say "per", not "a"', () => {
  const rate = new RegExp(
    "\\b(batches|bytes|candidates|classes|emails|entries|examples|files|forks|ids|indices|lines|milliseconds|ms|numbers|" +
      "parts|passes|places|points|predictions|probabilities|projections|queries|rows|seconds|slots|steps|substitutes|" +
      "texts|times|tokens|updates|values|words|one|once|twice|\\d+|file|folder|line|list|panel|run|token|value|number) an? " +
      "(attack|batch|cell|class|column|command|day|epoch|example|file|head|hour|label|layer|method|minute|panel|process|query|" +
      "row|run|second|seed|side|split|step|task|text|token|update|verb|word)\\b(?! (has|had|is|of|that|which|time|may|can|contains|needs))",
  );
  expectNone(findLines(everything, (line) => rate.test(line)));
});

test("results that are equal in every bit are called bitwise identical", () => {
  expectNone(findLines(everything, (line) => /\bto the (last )?bit\b/.test(line)));
});

/** The names that a source file declares, with their lines. */
function listDeclaredNames(file: string): { name: string; line: number; isFunction: boolean }[] {
  const source = ts.createSourceFile(file, readFileSync(file, "utf8"), ts.ScriptTarget.Latest, true);
  const found: { name: string; line: number; isFunction: boolean }[] = [];
  const visit = (node: ts.Node): void => {
    if ((ts.isFunctionDeclaration(node) || isNamedDeclaration(node)) && node.name && ts.isIdentifier(node.name)) {
      const line = source.getLineAndCharacterOfPosition(node.name.getStart()).line + 1;
      found.push({ name: node.name.text, line, isFunction: declaresFunction(node) });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

function isNamedDeclaration(node: ts.Node): node is ts.NamedDeclaration {
  return (
    ts.isVariableDeclaration(node) ||
    ts.isParameter(node) ||
    ts.isBindingElement(node) ||
    ts.isMethodDeclaration(node) ||
    ts.isMethodSignature(node) ||
    ts.isPropertyDeclaration(node) ||
    ts.isPropertySignature(node) ||
    ts.isPropertyAssignment(node) ||
    ts.isClassDeclaration(node) ||
    ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node)
  );
}

function declaresFunction(node: ts.Node): boolean {
  if (ts.isFunctionDeclaration(node) || ts.isMethodDeclaration(node) || ts.isMethodSignature(node)) return true;
  const { initializer } = node as { initializer?: ts.Node };
  return initializer !== undefined && (ts.isArrowFunction(initializer) || ts.isFunctionExpression(initializer));
}

test("identifiers use standard words", () => {
  const rules: readonly { readonly reason: string; readonly breaks: (name: string, isFunction: boolean) => boolean }[] =
    [
      { reason: "start with a verb", breaks: (name, isFunction) => isFunction && /[a-z]Of$/.test(name) },
      {
        reason: "fraction, rate, weight or probability",
        breaks: (name) => /^shares?([A-Z]|$)|[a-z]Shares?([A-Z]|$)/.test(name),
      },
      { reason: "default…, max… or min…", breaks: (name) => /^(usual|most|least|fewest)[A-Z]/.test(name) },
      {
        reason: "American spelling",
        breaks: (name) => /colour|centre(?!d)|neighbour|licence|[sS]ummaris|[nN]ormalis|[aA]nalyse(?!s)/.test(name),
      },
    ];
  const findings = sources.flatMap((file) =>
    listDeclaredNames(file).flatMap(({ name, line, isFunction }) =>
      rules
        .filter(({ breaks }) => breaks(name, isFunction))
        .map(({ reason }) => `${file}:${line}: ${name} (${reason})`),
    ),
  );
  expectNone(findings);
});

test("the checks find what they look for", () => {
  const names = listDeclaredNames("tests/language.test.ts").map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(["Finding", "listFiles", "extensions", "isFunction", "breaks"]));
  expect(findLines(["tests/language.test.ts"], (line) => /^import ts from/.test(line))).toEqual([
    'tests/language.test.ts:3: import ts from "typescript";',
  ]);
});
