import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  explainMismatch,
  findPrebuilt,
  installPrebuilt,
  PREBUILT_PACKAGE,
  RPATH_PLACEHOLDER,
  replacePlaceholder,
} from "../../../scripts/setup/prebuilt.mjs";
import { hashSources } from "../../../scripts/setup/stamp.mjs";
import { temporaryFolder } from "../../temporary.js";

const root = temporaryFolder();
const libtorch = {
  ...{
    path: "/opt/torch",
    source: "venv",
    version: "2.15.0",
    cxx11Abi: true,
    includes: [],
    libraryFolder: "/opt/torch/lib",
  },
  ...{ cuda: undefined, withoutCuda: undefined },
} as const;
type Libtorch = Parameters<typeof explainMismatch>[2];
const given = libtorch as unknown as Libtorch;

mkdirSync(join(root, "native"));
writeFileSync(join(root, "native", "a.cc"), "int a;");
writeFileSync(join(root, "package.json"), "{}");
const abi = { libtorch: "2.15.0", cxx11Abi: true, sources: hashSources(join(root, "native")), minGlibc: "2.34" };

test("a prebuilt addon fits only the same libtorch, ABI, sources and C library", () => {
  expect(explainMismatch(root, abi, given, "2.36")).toBeUndefined();
  expect(explainMismatch(root, { ...abi, libtorch: "2.14.0" }, given, "2.36")).toContain("libtorch 2.14.0, not 2.15.0");
  expect(explainMismatch(root, { ...abi, cxx11Abi: false }, given, "2.36")).toContain("C++ ABI");
  expect(explainMismatch(root, { ...abi, sources: "other" }, given, "2.36")).toContain("other sources");
  expect(explainMismatch(root, abi, given, "2.31")).toContain("needs glibc 2.34, not 2.31");
  expect(explainMismatch(root, abi, { ...given, cuda: {} as never }, "2.36")).toContain("no CUDA");
  expect(explainMismatch(root, undefined, given, "2.36")).toContain("missing");
  const long = { ...given, libraryFolder: `/${"x".repeat(RPATH_PLACEHOLDER.length)}` };
  expect(explainMismatch(root, abi, long, "2.36")).toContain("too long");
});

/** Writes the package.json of a published package that names this addon. */
function writeManifest(folder: string, addon: Buffer): void {
  const prebuilt = { [PREBUILT_PACKAGE]: createHash("sha256").update(addon).digest("hex") };
  const manifest = { optionalDependencies: { [PREBUILT_PACKAGE]: "0.2.0" }, temper: { prebuilt } };
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
}

test("setup loads only the addon that the package names, from its own node_modules or beside it", () => {
  const parent = temporaryFolder();
  const addon = Buffer.from(`\0${RPATH_PLACEHOLDER}\0`);
  const plant = (folder: string): void => {
    mkdirSync(join(folder, "node_modules", PREBUILT_PACKAGE), { recursive: true });
    writeFileSync(join(folder, "node_modules", PREBUILT_PACKAGE, "package.json"), "{}");
    writeFileSync(join(folder, "node_modules", PREBUILT_PACKAGE, "temper.node"), addon);
  };
  // Another user may write to a folder above a checkout.
  plant(parent);
  const checkout = join(parent, "victim", "checkout");
  mkdirSync(join(checkout, ".git"), { recursive: true });
  writeManifest(checkout, addon);
  expect(findPrebuilt(checkout)).toBeUndefined();
  rmSync(join(checkout, ".git"), { recursive: true });
  expect(findPrebuilt(checkout)).toBeUndefined();
  const installed = join(parent, "node_modules", "temper-nlp");
  mkdirSync(installed);
  writeFileSync(join(installed, "package.json"), "{}");
  expect(findPrebuilt(installed)).toBeUndefined();
  writeManifest(installed, addon);
  expect(findPrebuilt(installed)?.folder).toBe(join(parent, "node_modules", PREBUILT_PACKAGE));
  writeManifest(installed, Buffer.from("another addon"));
  const log: string[] = [];
  const build = join(parent, "build");
  const given2 = { root: installed, folder: build, libtorch: given, env: {}, log: (line: string) => log.push(line) };
  expect(installPrebuilt(given2)).toBe(false);
  expect(log.join()).toContain("not the one that this version of temper-nlp names");
  expect(existsSync(join(build, "temper.node"))).toBe(false);
});

test("setup writes the folder of libtorch into the addon, and compiles if there is none that fits", () => {
  const log: string[] = [];
  const options = {
    root,
    folder: join(root, "build"),
    libtorch: given,
    env: {},
    log: (line: string) => log.push(line),
  };
  expect(findPrebuilt(root)).toBeUndefined();
  expect(installPrebuilt(options)).toBe(false);
  const folder = join(root, "node_modules", PREBUILT_PACKAGE);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), "{}");
  writeFileSync(join(folder, "abi.json"), JSON.stringify({ ...abi, minGlibc: "2.17" }));
  const content = Buffer.from(`start\0${RPATH_PLACEHOLDER}\0end`);
  writeFileSync(join(folder, "temper.node"), content);
  expect(installPrebuilt(options)).toBe(false);
  writeManifest(root, content);
  expect(installPrebuilt({ ...options, env: { TEMPER_PREBUILT: "0" } })).toBe(false);
  expect(installPrebuilt(options)).toBe(true);
  const installed = readFileSync(join(root, "build", "temper.node"));
  expect(installed.length).toBe(content.length);
  expect(installed.toString().split("\0").filter(Boolean)).toEqual(["start", "/opt/torch/lib", "end"]);
  writeFileSync(join(root, "native", "a.cc"), "int b;");
  expect(installPrebuilt(options)).toBe(false);
  expect(log.join("\n")).toContain("it was built from other sources");
  expect(() => replacePlaceholder(Buffer.from("nothing"), "/opt")).toThrow("no placeholder");
});
