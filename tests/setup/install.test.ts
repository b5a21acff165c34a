import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { installLibtorch, pipWays } from "../../scripts/setup/install.mjs";
import { failureMessage } from "../../scripts/setup/remedies.mjs";
import { environment, putLibtorch, putScript, temporaryFolder } from "./trees.js";

/**
 * A machine with a Python that obeys `rules`, lines of a shell `case` over its arguments, and that installs a libtorch where
 * pip would. Every call is noted.
 */
function machine(rules: string) {
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
  it("makes a .venv, tries PyTorch's CPU index first and takes the light way after it", () => {
    const { run, lines, calls } = machine("");
    const { libtorch, attempts } = run();
    expect(libtorch?.source).toBe("venv");
    expect(attempts).toHaveLength(1);
    expect(
      calls()
        .filter((call) => call.includes(" install "))
        .map((call) => call.match(/--index-url|nvidia-cuda-cupti/)?.[0]),
    ).toEqual(["--index-url", "nvidia-cuda-cupti"]);
    expect(lines.join("\n")).toMatch(/the engine Temper computes with.*about 200 MB.*about 600 MB/s);
  });

  it("uses pip's --target where there is no venv, under its name only when whole", () => {
    const { root, run } = machine('"-m venv"*) exit 1;;');
    expect(run().libtorch).toMatchObject({ source: "target", path: join(root, ".torch/torch") });
    expect(existsSync(join(root, "build/torch.partial"))).toBe(false);
    expect(existsSync(join(root, ".venv"))).toBe(false);
  });

  it("fetches pip's wheel where there is no pip either", () => {
    const { run, calls, lines } = machine('"-m venv"*|"-m pip"*) exit 1;;\n*fetch_pip.py*) echo /there/pip-1.whl;;');
    expect(run().libtorch?.source).toBe("target");
    expect(calls().some((call) => call.startsWith("/there/pip-1.whl/pip install"))).toBe(true);
    expect(lines.join("\n")).toContain("no pip: downloading");
  });

  it("leaves alone a .venv that someone made without pip", () => {
    const { root, run, python } = machine("");
    putScript(join(root, ".venv/bin/python"), `case "$*" in "-m pip"*) exit 1;; esac; exec ${python} "$@"`);
    expect(run().libtorch?.source).toBe("target");
    expect(existsSync(join(root, ".venv/bin/python"))).toBe(true);
  });

  it("says of each way why it failed", () => {
    const { run } = machine("*install*) exit 1;;");
    const { libtorch, attempts } = run();
    expect(libtorch).toBeUndefined();
    expect(attempts.map(({ reason }) => reason)).toEqual([
      ...Array(3).fill("pip failed; its lines are above"),
      "there is no apt-get here",
    ]);
    const bare = installLibtorch({ root: temporaryFolder(), env: environment("/nowhere"), log: () => {} });
    expect(bare.attempts.map(({ reason }) => reason)).toEqual([
      "there is no python3 on PATH",
      "there is no apt-get here",
    ]);
  });
});

describe("pipWays", () => {
  it("asks the CPU index once and briefly", () => {
    expect(pipWays(environment(""))[0]?.args.join(" ")).toMatch(
      /--no-deps .*--retries 0 --timeout \d torch==2\.15\.0$/,
    );
  });

  it("takes all of CUDA on a machine with a GPU, and another version where TEMPER_TORCH says so", () => {
    const ways = pipWays({ TEMPER_CUDA: "1", TEMPER_TORCH: "2.14.1" });
    expect(ways[0]?.args).toEqual(["torch==2.14.1", "cuda-toolkit[cccl,crt]"]);
  });
});

describe("failureMessage", () => {
  it("names what was found, what was tried, and every remedy", () => {
    const message = failureMessage(
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
      "apt-get install libtorch-dev libopenblas0-pthread",
    ]) {
      expect(message).toContain(part);
    }
  });
});
