import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  buildAddon,
  completeBuild,
  decideWhatToBuild,
  getBuildFolder,
  verifyAddon,
} from "../../../scripts/setup/build.mjs";
import { inspectLibtorch } from "../../../scripts/setup/inspect.mjs";
import { readJson } from "../../../scripts/setup/stamp.mjs";
import { environment, put, putLibtorch, temporaryFolder } from "./trees.js";

const env = environment("/nowhere");

/** Creates a checkout with a built addon. */
function createBuild() {
  const root = temporaryFolder();
  const folder = getBuildFolder(root, env);
  put(join(root, "native/binding/dispatch.cc"), "// dispatch");
  put(join(folder, "temper.node"));
  const path = putLibtorch(join(root, ".torch/torch"));
  const libtorch = () => inspectLibtorch(path, "target", env);
  completeBuild(root, folder, libtorch());
  return { root, folder, path, libtorch, needed: () => decideWhatToBuild(root, folder, libtorch()) };
}

describe("decideWhatToBuild", () => {
  it("returns nothing if nothing changed", () => {
    expect(createBuild().needed()).toBe("nothing");
  });

  it("returns sources if a source changed or was added, or the addon is missing", () => {
    const changed = createBuild();
    put(join(changed.root, "native/binding/dispatch.cc"), "// Dispatch");
    expect(changed.needed()).toBe("sources");
    const added = createBuild();
    put(join(added.root, "native/distributed/gloo-headers/gloo/context.h"));
    expect(added.needed()).toBe("sources");
    const missing = createBuild();
    rmSync(join(missing.folder, "temper.node"));
    expect(missing.needed()).toBe("sources");
  });

  it("returns everything if libtorch changed or the build was interrupted", () => {
    const updated = createBuild();
    putLibtorch(updated.path, { version: "2.16.0" });
    expect(updated.needed()).toBe("everything");
    const truncated = createBuild();
    put(join(truncated.path, "lib/libtorch_cpu.so"), "c");
    expect(truncated.needed()).toBe("everything");
    const interrupted = createBuild();
    rmSync(join(interrupted.folder, "stamp.json"));
    expect(interrupted.needed()).toBe("everything");
    const damaged = createBuild();
    writeFileSync(join(damaged.folder, "stamp.json"), '{"libtorch":');
    expect(damaged.needed()).toBe("everything");
  });

  it("returns everything for a moved checkout", () => {
    const { folder, libtorch } = createBuild();
    const moved = temporaryFolder();
    put(join(moved, "native/binding/dispatch.cc"), "// dispatch");
    expect(decideWhatToBuild(moved, folder, libtorch())).toBe("everything");
  });
});

describe("the build folder", () => {
  it("contains information about the libtorch", () => {
    const { folder, path } = createBuild();
    expect(readJson(join(folder, "libtorch.json"))).toEqual({
      path,
      version: "2.15.0",
      source: "target",
      cuda: false,
      cxx11Abi: true,
      prebuilt: false,
    });
  });

  it("can be set with TEMPER_BUILD", () => {
    expect(getBuildFolder("/there", { TEMPER_BUILD: "build/asan" })).toBe("/there/build/asan");
    expect(getBuildFolder("/there", {})).toBe("/there/build/native");
  });

  it("is not changed if the build tools are missing", () => {
    const { root, folder, libtorch } = createBuild();
    expect(() => buildAddon({ root, folder, libtorch: libtorch(), env, clean: true })).toThrow(
      /needs cmake and c\+\+\. .*apt-get install/,
    );
    expect(decideWhatToBuild(root, folder, libtorch())).toBe("nothing");
  });
});

describe("verifyAddon", () => {
  it("explains why an addon does not load", () => {
    const { folder, libtorch } = createBuild();
    expect(verifyAddon(folder, libtorch(), env)).toMatch(/file too short/);
  });
});
