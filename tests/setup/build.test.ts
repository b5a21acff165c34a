import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { buildAddon, buildFolder, completeBuild, verifyAddon, whatToBuild } from "../../scripts/setup/build.mjs";
import { inspectLibtorch } from "../../scripts/setup/inspect.mjs";
import { readJson } from "../../scripts/setup/stamp.mjs";
import { environment, put, putLibtorch, temporaryFolder } from "./trees.js";

const env = environment("/nowhere");

/** A checkout whose addon was built. */
function built() {
  const root = temporaryFolder();
  const folder = buildFolder(root, env);
  put(join(root, "native/door.cc"), "// door");
  put(join(folder, "temper.node"));
  const path = putLibtorch(join(root, ".torch/torch"));
  const libtorch = () => inspectLibtorch(path, "target", env);
  completeBuild(root, folder, libtorch());
  return { root, folder, path, libtorch, needed: () => whatToBuild(root, folder, libtorch()) };
}

describe("whatToBuild", () => {
  it("is nothing when nothing changed", () => {
    expect(built().needed()).toBe("nothing");
  });

  it("is the sources when these changed, one came, or the addon is gone", () => {
    const changed = built();
    put(join(changed.root, "native/door.cc"), "// Door");
    expect(changed.needed()).toBe("sources");
    const added = built();
    put(join(added.root, "native/slots.h"));
    expect(added.needed()).toBe("sources");
    const gone = built();
    rmSync(join(gone.folder, "temper.node"));
    expect(gone.needed()).toBe("sources");
  });

  it("is everything when libtorch changed, or the build never came to its end", () => {
    const updated = built();
    putLibtorch(updated.path, { version: "2.16.0" });
    expect(updated.needed()).toBe("everything");
    const cut = built();
    put(join(cut.path, "lib/libtorch_cpu.so"), "c");
    expect(cut.needed()).toBe("everything");
    const interrupted = built();
    rmSync(join(interrupted.folder, "stamp.json"));
    expect(interrupted.needed()).toBe("everything");
    const garbled = built();
    writeFileSync(join(garbled.folder, "stamp.json"), '{"libtorch":');
    expect(garbled.needed()).toBe("everything");
  });

  it("is everything in a checkout that was moved", () => {
    const { folder, libtorch } = built();
    const moved = temporaryFolder();
    put(join(moved, "native/door.cc"), "// door");
    expect(whatToBuild(moved, folder, libtorch())).toBe("everything");
  });
});

describe("the build folder", () => {
  it("holds the facts of the libtorch that was used", () => {
    const { folder, path } = built();
    expect(readJson(join(folder, "libtorch.json"))).toEqual({
      path,
      version: "2.15.0",
      source: "target",
      cuda: false,
      cxx11Abi: true,
    });
  });

  it("is another one where TEMPER_BUILD says so", () => {
    expect(buildFolder("/there", { TEMPER_BUILD: "build/debian" })).toBe("/there/build/debian");
    expect(buildFolder("/there", {})).toBe("/there/build/native");
  });

  it("is left alone when there are no tools to build with", () => {
    const { root, folder, libtorch } = built();
    expect(() => buildAddon({ root, folder, libtorch: libtorch(), env, clean: true })).toThrow(
      /needs cmake and c\+\+ .*apt-get install/,
    );
    expect(whatToBuild(root, folder, libtorch())).toBe("nothing");
  });
});

describe("verifyAddon", () => {
  it("tells why an addon does not load", () => {
    const { folder, libtorch } = built();
    expect(verifyAddon(folder, libtorch(), env)).toMatch(/file too short/);
  });
});
