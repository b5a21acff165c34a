import { spawnSync } from "node:child_process";

/** The GPUs that runs may use, as CUDA_VISIBLE_DEVICES names them. Asked of the driver: loading the engine would occupy one. */
export function listVisibleGpus(): string[] {
  const named = process.env.CUDA_VISIBLE_DEVICES;
  if (named !== undefined) return named.split(",").filter((name) => name !== "" && name !== "-1");
  const asked = spawnSync("nvidia-smi", ["--query-gpu=index", "--format=csv,noheader"], { encoding: "utf8" });
  return asked.status === 0
    ? asked.stdout
        .trim()
        .split("\n")
        .filter((line) => /^\d+$/.test(line))
    : [];
}
