import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { beforeAll, expect, test } from "vitest";
import { chooseExtent } from "./extent.js";
import { temporaryFolder } from "./temporary.js";

type Files = Record<string, Buffer>;
interface Target {
  readonly folder: string;
}
interface Harness {
  readonly targets: Record<string, (context: object) => Promise<Target>>;
  makeFiles(target: Target, name: string, number: number): Files;
  runCase(target: Target, files: Files): Promise<unknown>;
  writeSeeds(folder: string, load: (path: string) => Promise<unknown>, fixtures: string): Promise<void>;
}

const modules = ["targets", "run-case", "seeds"].map(
  (name): Promise<Partial<Harness>> => import(pathToFileURL(resolve("tools", "fuzz", `${name}.mjs`)).href),
);
const { targets, makeFiles, runCase, writeSeeds } = Object.assign({}, ...(await Promise.all(modules))) as Harness;

const work = temporaryFolder();
const seeds = join(work, "seeds");
const kept = join("tests", "fixtures", "fuzz");
const load = (path: string): Promise<unknown> => import(pathToFileURL(resolve("src", `${path}.ts`)).href);

beforeAll(() => writeSeeds(seeds, load, join("tests", "fixtures")));

/** Their cases take a few milliseconds. */
const quick = ["safetensors", "tables"];

test.each(Object.keys(targets))("%s: damaged input is read or refused clearly", async (name) => {
  const target = await targets[name]!({ seeds, work: join(work, name), load });
  const count = quick.includes(name) ? chooseExtent(200, 3000) : chooseExtent(3, 12);
  for (let number = 0; number < count; number++)
    expect([number, await runCase(target, makeFiles(target, name, number))]).toEqual([
      number,
      expect.stringMatching(/^(ok|refused)$/),
    ]);
});

// make fuzz keeps the inputs that fail. They stay here after the mistake is corrected.
const files = existsSync(kept) ? readdirSync(kept) : [];
test.each(files.length > 0 ? files : [null])("input that failed once: %s", async (file) => {
  if (file === null) return;
  const { target: name, files: content } = JSON.parse(readFileSync(join(kept, file), "utf8")) as {
    target: string;
    files: Record<string, string>;
  };
  const target = await targets[name]!({ seeds, work: join(work, `${name}-kept`), load });
  const damaged = Object.entries(content).map(([path, text]) => [path, Buffer.from(text, "base64")] as const);
  expect(await runCase(target, Object.fromEntries(damaged))).toMatch(/^(ok|refused)$/);
});
