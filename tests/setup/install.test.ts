import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { installLibtorch, listPipInstallations } from "../../scripts/setup/install.mjs";
import { formatFailure } from "../../scripts/setup/remedies.mjs";
import { environment, putLibtorch, putScript, temporaryFolder } from "./trees.js";

/**
 * Creates a fake Python that installs a libtorch like pip and logs every call. `rules` are lines of
 * a shell `case` over its arguments.
 */
function createHost(rules: string) {
  const root = temporaryFolder();
  const wheel = putLibtorch(join(root, "wheel"));
  const calls = join(root, "calls");
  const python = putScript(
    join(root, "bin/python3"),
    `PATH=/usr/bin:/bin
echo "$@" >> ${calls}
case "$*" in
${rules}
*--index-url*) exit 1;;
"-m venv"*) mkdir -p ${root}/.venv/bin && cp "$0" ${root}/.venv/bin/python;;
*"--target "*) t=\${*#*--target }; t=\${t%% *}; mkdir -p $t/torch && cp -r ${wheel}/. $t/torch;;
*" install "*) mkdir -p ${root}/.venv/lib/python3.11/site-packages && cp -r ${wheel} ${root}/.venv/lib/python3.11/site-packages/torch;;
esac`,
  );
  const lines: string[] = [];
  const run = () =>
    installLibtorch({ root, env: environment(join(root, "bin")), log: (line) => lines.push(line), probe: () => {} });
  return { root, python, run, lines, calls: () => readFileSync(calls, "utf8").split("\n") };
}

describe("installLibtorch", () => {
  it("creates a .venv, tries PyTorch's CPU index first and then the small installation", () => {
    const { run, lines, calls } = createHost("");
    const { libtorch, attempts } = run();
    expect(libtorch?.source).toBe("venv");
    expect(attempts).toHaveLength(1);
    expect(
      calls()
        .filter((call) => call.includes(" install "))
        .map((call) => call.match(/--index-url|nvidia-cuda-cupti/)?.[0]),
    ).toEqual(["--index-url", "nvidia-cuda-cupti"]);
    expect(lines.join("\n")).toMatch(/No usable libtorch.*200 MB.*600 MB/s);
  });

  it("uses pip --target without venv, and renames the folder only when it is complete", () => {
    const { root, run } = createHost('"-m venv"*) exit 1;;');
    expect(run().libtorch).toMatchObject({ source: "target", path: join(root, ".torch/torch") });
    expect(existsSync(join(root, "build/torch.partial"))).toBe(false);
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

  it("returns the reason of every failure", () => {
    const { run } = createHost("*install*) exit 1;;");
    const { libtorch, attempts } = run();
    expect(libtorch).toBeUndefined();
    expect(attempts.map(({ reason }) => reason)).toEqual(Array(3).fill("pip failed; see its messages above"));
    const bare = installLibtorch({ root: temporaryFolder(), env: environment("/nowhere"), log: () => {} });
    expect(bare.attempts.map(({ reason }) => reason)).toEqual(["python3 is not on PATH"]);
  });
});

describe("listPipInstallations", () => {
  it("uses the CPU index without retries and with a short timeout", () => {
    expect(listPipInstallations(environment(""))[0]?.args.join(" ")).toMatch(
      /--no-deps .*--retries 0 --timeout \d torch==2\.15\.0$/,
    );
  });

  it("installs CUDA on a host with a GPU, and the version in TEMPER_TORCH", () => {
    const installations = listPipInstallations({ TEMPER_CUDA: "1", TEMPER_TORCH: "2.14.1" });
    expect(installations[0]?.args).toEqual(["torch==2.14.1", "cuda-toolkit[cccl,crt]"]);
  });
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
