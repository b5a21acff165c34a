import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findLibtorch } from "../../../scripts/setup/find.mjs";
import type { Libtorch } from "../../../scripts/setup/inspect.mjs";
import { setup } from "../../../scripts/setup/setup.mjs";
import { environment, put, putLibtorch, putScript, temporaryFolder } from "./trees.js";

const loads = () => {};

/** Creates a libtorch in every place that is searched. */
function createHost() {
  const root = temporaryFolder();
  const places = {
    LIBTORCH: putLibtorch(join(root, "given")),
    python: putLibtorch(join(root, "site-packages/torch")),
    venv: putLibtorch(join(root, ".venv/lib/python3.11/site-packages/torch")),
    target: putLibtorch(join(root, ".torch/torch")),
    system: putLibtorch(join(root, "usr"), {
      lib: `lib/${process.arch === "arm64" ? "aarch64" : "x86_64"}-linux-gnu`,
    }),
  };
  putScript(join(root, "bin/python3"), `echo ${places.python}`);
  const env = environment(join(root, "bin"), { LIBTORCH: places.LIBTORCH });
  return { root, env, places, systemFolders: [places.system] };
}

describe("findLibtorch", () => {
  it("tries LIBTORCH, the Python on PATH, .venv, .torch and the system, in this order", () => {
    const { places, ...options } = createHost();
    const found: string[] = [];
    const probe = ({ source }: Libtorch) => {
      found.push(source);
      throw new Error("not this one");
    };
    const env = { ...options.env, LIBTORCH: undefined };
    expect(findLibtorch({ ...options, probe: loads }).libtorch).toMatchObject({
      source: "LIBTORCH",
      path: places.LIBTORCH,
    });
    expect(findLibtorch({ ...options, env, probe }).libtorch).toBeUndefined();
    expect(found).toEqual(["python", "venv", "target", "system"]);
  });

  it("skips a libtorch that does not load and returns the reason", () => {
    const options = createHost();
    const probe = ({ source }: Libtorch) => {
      if (source === "python") throw new Error("libcudart.so.13 is missing");
    };
    const { libtorch, rejected } = findLibtorch({ ...options, env: { ...options.env, LIBTORCH: undefined }, probe });
    expect(libtorch?.source).toBe("venv");
    expect(rejected).toEqual([{ source: "python", path: options.places.python, reason: "libcudart.so.13 is missing" }]);
  });

  it("does not replace a broken LIBTORCH", () => {
    const options = createHost();
    const { libtorch, rejected } = findLibtorch({
      ...options,
      env: { ...options.env, LIBTORCH: "/nowhere" },
      probe: loads,
    });
    expect(libtorch).toBeUndefined();
    expect(rejected).toEqual([{ source: "LIBTORCH", path: "/nowhere", reason: "there is no such folder" }]);
  });

  it("accepts the folder of an archive or site-packages as LIBTORCH", () => {
    const root = temporaryFolder();
    putLibtorch(join(root, "archive/libtorch"));
    const env = environment("/nowhere", { LIBTORCH: join(root, "archive") });
    expect(findLibtorch({ root, env, probe: loads }).libtorch?.path).toBe(join(root, "archive/libtorch"));
  });

  it("continues if Python has no torch, is broken or is missing", () => {
    const { root, places, systemFolders } = createHost();
    for (const script of ["echo", "exit 3"]) {
      putScript(join(root, "bin/python3"), script);
      expect(findLibtorch({ root, env: environment(join(root, "bin")), probe: loads }).libtorch?.path).toBe(
        places.venv,
      );
    }
    const env = environment("/nowhere");
    expect(findLibtorch({ root, env, systemFolders, only: ["python", "system"], probe: loads }).libtorch?.path).toBe(
      places.system,
    );
  });

  it("recognizes an activated .venv", () => {
    const { root, places } = createHost();
    putScript(join(root, "bin/python3"), `echo ${places.venv}`);
    expect(findLibtorch({ root, env: environment(join(root, "bin")), probe: loads }).libtorch?.source).toBe("venv");
  });

  it("does not probe a trusted libtorch", () => {
    const options = createHost();
    const probe = () => {
      throw new Error("tried");
    };
    expect(findLibtorch({ ...options, probe, trusted: () => true }).libtorch?.source).toBe("LIBTORCH");
  });

  it("finds nothing on an empty host", () => {
    const root = temporaryFolder();
    put(join(root, ".venv/pyvenv.cfg"));
    expect(findLibtorch({ root, env: environment("/nowhere"), systemFolders: [root] })).toEqual({
      libtorch: undefined,
      rejected: [],
    });
  });
});

describe("setup --dry-run", () => {
  it("rejects an unusable LIBTORCH, like setup itself", () => {
    const root = temporaryFolder();
    const env = environment("/nowhere", { LIBTORCH: "/nope" });
    for (const dryRun of [true, false])
      expect(() => setup({ root, env, log: () => {}, dryRun })).toThrow(
        /\/nope \(the LIBTORCH variable\): there is no such folder/,
      );
  });
});
