import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";

/** Creates a temporary folder for a test. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "temper-setup-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Writes a file and creates its folders. */
export function put(file: string, content = ""): string {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, content);
  return file;
}

/** Writes an executable shell script. */
export function putScript(file: string, body: string): string {
  put(file, `#!/bin/sh\n${body}\n`);
  chmodSync(file, 0o755);
  return file;
}

export const NEW_ABI = "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcEE";
export const OLD_ABI = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs";

/**
 * Creates a folder that looks like a libtorch: headers with a version, and libraries with our
 * symbols.
 */
export function putLibtorch(folder: string, { version = "2.15.0", symbols = NEW_ABI, lib = "lib" } = {}): string {
  const [major, minor, patch] = version.split(".");
  put(join(folder, "include/ATen/ATen.h"));
  put(
    join(folder, "include/torch/csrc/api/include/torch/version.h"),
    `#define TORCH_VERSION_MAJOR ${major}\n#define TORCH_VERSION_MINOR ${minor}\n#define TORCH_VERSION_PATCH ${patch}\n`,
  );
  put(join(folder, lib, "libtorch_cpu.so"), "cpu");
  put(join(folder, lib, "libc10.so"), `\0${symbols}\0`);
  return folder;
}

/** Returns an environment with only `folder` on PATH and without a GPU. */
export function environment(folder: string, more: Record<string, string> = {}): Record<string, string | undefined> {
  return { PATH: folder, TEMPER_CUDA: "0", ...more };
}
