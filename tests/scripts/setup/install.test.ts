import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findLibtorch, TORCH_VERSION } from "../../../scripts/setup/find.mjs";
import { choosePackages, installLibtorch } from "../../../scripts/setup/install.mjs";
import { formatFailure } from "../../../scripts/setup/remedies.mjs";
import { environment, putLibtorch, putScript, temporaryFolder } from "./trees.js";

/**
 * Creates a fake Python that installs a libtorch like pip and logs every call. `rules` are lines of
 * a shell `case` over its arguments. `packageFolder` is the folder of Temper below the root.
 */
function createHost(rules: string, packageFolder = "") {
  const root = temporaryFolder();
  const wheel = putLibtorch(join(root, "wheel"));
  const calls = join(root, "calls");
  const python = putScript(
    join(root, "bin/python3"),
    `PATH=/usr/bin:/bin
echo "$@" >> ${calls}
case "$*" in
${rules}
"-m venv"*) mkdir -p ${root}/.venv/bin && cp "$0" ${root}/.venv/bin/python;;
*"--target "*) t=\${*#*--target }; t=\${t%% *}; mkdir -p $t/torch && cp -r ${wheel}/. $t/torch;;
*" install "*) mkdir -p ${root}/.venv/lib/python3.11/site-packages && cp -r ${wheel} ${root}/.venv/lib/python3.11/site-packages/torch;;
esac`,
  );
  for (const name of ["sudo", "apt-get"]) putScript(join(root, "bin", name), `echo ${name} >> ${calls}`);
  const lines: string[] = [];
  const env = environment(join(root, "bin"), { TEMPER_CACHE: join(root, "cache") });
  const run = () =>
    installLibtorch({ root: join(root, packageFolder), env, log: (line) => lines.push(line), probe: () => {} });
  return { root, python, run, lines, calls: () => readFileSync(calls, "utf8").split("\n") };
}

describe("installLibtorch", () => {
  it("creates a .venv, and installs only pinned packages with known checksums from pip's own index", () => {
    const { run, lines, calls } = createHost("");
    const { libtorch, attempts } = run();
    expect(libtorch?.source).toBe("venv");
    expect(attempts).toEqual([]);
    const installed = calls().filter((call) => call.includes(" install "));
    expect(installed.map((call) => call.match(/--require-hashes -r \S+?(\w+)\.txt$/)?.[1])).toEqual(["pip", "cpu"]);
    expect(calls().join("\n")).not.toMatch(/https?:|-index-url/);
    expect(lines.join("\n")).toMatch(/No usable libtorch.*600 MB/s);
  });

  it("keeps the libtorch of an installed package in the user's cache, which npm ci does not remove", () => {
    const { root, run } = createHost('"-m venv"*) exit 1;;', "project/node_modules/temper-nlp");
    const home = join(root, "cache/libtorch-2.15.0");
    expect(run().libtorch).toMatchObject({ source: "target", path: join(home, ".torch/torch") });
    const after = { root: join(root, "project/node_modules/temper-nlp"), probe: () => {} };
    const env = environment("/nowhere", { TEMPER_CACHE: join(root, "cache") });
    expect(findLibtorch({ ...after, env, only: ["target"] }).libtorch?.path).toBe(join(home, ".torch/torch"));
  });

  it("uses pip --target without venv, and renames the folder only when it is complete", () => {
    const { root, run } = createHost('"-m venv"*) exit 1;;');
    expect(run().libtorch).toMatchObject({ source: "target", path: join(root, ".torch/torch") });
    expect(existsSync(join(root, ".torch.partial"))).toBe(false);
    expect(existsSync(join(root, ".venv"))).toBe(false);
  });

  it("downloads the wheel of pip if there is no pip", () => {
    const { run, calls, lines } = createHost('"-m venv"*|"-m pip"*) exit 1;;\n*fetch_pip.py*) echo /there/pip-1.whl;;');
    expect(run().libtorch?.source).toBe("target");
    expect(calls().some((call) => call.startsWith("/there/pip-1.whl/pip install"))).toBe(true);
    expect(lines.join("\n")).toContain("no pip. Downloading");
  });

  it("does not change a .venv without pip", () => {
    const { root, run, python } = createHost("");
    putScript(join(root, ".venv/bin/python"), `case "$*" in "-m pip"*) exit 1;; esac; exec ${python} "$@"`);
    expect(run().libtorch?.source).toBe("target");
    expect(existsSync(join(root, ".venv/bin/python"))).toBe(true);
  });

  it("returns the reason of every failure, and never asks for root", () => {
    const { run, calls } = createHost("*install*) exit 1;;");
    const { libtorch, attempts } = run();
    expect(calls().join("\n")).not.toMatch(/sudo|apt-get/);
    expect(libtorch).toBeUndefined();
    expect(attempts.map(({ reason }) => reason)).toEqual(["pip failed; see its messages above"]);
    const bare = installLibtorch({ root: temporaryFolder(), env: environment("/nowhere"), log: () => {} });
    expect(bare.attempts.map(({ reason }) => reason)).toEqual(["python3 is not on PATH"]);
  });
});

describe("choosePackages", () => {
  const readPinned = (env: Record<string, string>) =>
    readFileSync(choosePackages(env).args.at(-1) ?? "", "utf8")
      .replaceAll("\\\n", "")
      .split("\n")
      .filter((line) => line && !line.startsWith("#"));

  it.each(["0", "1"])("pins every package by version and SHA-256 (TEMPER_CUDA=%s)", (TEMPER_CUDA) => {
    const lines = readPinned({ TEMPER_CUDA });
    for (const line of lines) expect(line).toMatch(/^[\w-]+==[\d.]+ .*--hash=sha256:[0-9a-f]{64}$/);
    // Wheels for x64 and arm64, and several versions of Python.
    expect(lines.find((line) => line.startsWith(`torch==${TORCH_VERSION} `))?.match(/sha256/g)?.length).toBeGreaterThan(
      8,
    );
  });

  it("installs on a CPU only what libtorch needs to load there", () => {
    const names = readPinned({ TEMPER_CUDA: "0" }).map((line) => line.split("==")[0]);
    expect(names).toEqual(["nvidia-cuda-cupti", "nvidia-cuda-runtime", "torch"]);
  });

  it("installs the version in TEMPER_TORCH, and says that its checksums are not known", () => {
    const cuda = choosePackages({ TEMPER_CUDA: "1", TEMPER_TORCH: "2.14.1" });
    expect(cuda.args).toEqual(["torch==2.14.1", "cuda-toolkit[cccl,crt]"]);
    const cpu = choosePackages({ TEMPER_CUDA: "0", TEMPER_TORCH: "2.15.0+cpu" });
    expect(cpu.args).toEqual(["--no-deps", "torch==2.15.0+cpu"]);
    for (const { what } of [cuda, cpu]) expect(what).toContain("without known checksums");
  });
});

it("the Docker image contains no secrets and no data of the folder that it is built in", () => {
  const ignored = readFileSync(".dockerignore", "utf8").split("\n");
  for (const pattern of [".env*", "runs", "*.csv", "*.tsv", "*.jsonl", "*.parquet"]) expect(ignored).toContain(pattern);
});

describe("formatFailure", () => {
  it("lists what was found, what was tried, and every remedy", () => {
    const message = formatFailure(
      [{ source: "python", path: "/site/torch", reason: "libcudart.so.13 is missing" }],
      [{ what: "torch==2.15.0", reason: "pip failed" }],
    );
    for (const part of [
      "/site/torch (the Python on PATH): libcudart.so.13 is missing",
      "torch==2.15.0: pip failed",
      "set LIBTORCH",
      "a Python that has torch",
      "PIP_INDEX_URL",
      "apt-get install python3-venv",
    ]) {
      expect(message).toContain(part);
    }
  });
});
