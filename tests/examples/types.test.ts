import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";
import { chooseExtent } from "../extent.js";

const isLong = chooseExtent(0, 1) === 1;

// The compiler needs twenty seconds for the libraries.
test.runIf(isLong)("the types of all entry points compile with skipLibCheck: false", () => {
  const { exports, files } = JSON.parse(readFileSync("package.json", "utf8")) as {
    exports: Record<string, { types: string }>;
    files: string[];
  };
  expect(files).toEqual(expect.arrayContaining(["docs", "examples"]));
  // Inside the checkout, so that the compiler finds the packages that the types name.
  const folder = join("build", "types-test");
  mkdirSync(folder, { recursive: true });
  const program = join(folder, "use.ts");
  const lines = Object.values(exports).map(({ types }, i) => `export * as part${i} from "../../${types}";`);
  writeFileSync(program, `${lines.join("\n").replaceAll(".d.ts", ".js")}\n`);
  const options: ts.CompilerOptions = {
    ...{ noEmit: true, strict: true, skipLibCheck: false, types: ["node"] },
    ...{ module: ts.ModuleKind.NodeNext, target: ts.ScriptTarget.ES2023 },
  };
  const found = ts.getPreEmitDiagnostics(ts.createProgram([program], options));
  expect(
    found.map(({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`),
  ).toEqual([]);
});
