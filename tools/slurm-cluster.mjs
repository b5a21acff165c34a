// Starts a real Slurm cluster on this host while a command runs: node tools/slurm-cluster.mjs COMMAND…
// It needs root on Debian. All its files are in a temporary folder; installed packages stay.
import { spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { findOnPath } from "../scripts/setup/process.mjs";

const packages = ["slurm-wlm", "munge"];
const programs = ["sbatch", "squeue", "slurmctld", "slurmd", "munged"];
const startSeconds = 60;

/** @param {string} message @returns {never} */
function fail(message) {
  console.error(`test-slurm: ${message}`);
  process.exit(1);
}

function install() {
  const isInstalled = () => programs.every((program) => findOnPath(program, process.env));
  if (isInstalled()) return;
  if (process.getuid?.() !== 0)
    fail(`installing ${packages.join(" and ")} needs root. Run it as root, or install them first.`);
  const apt = (/** @type {string[]} */ ...args) =>
    spawnSync("apt-get", args, { stdio: ["ignore", 2, 2], env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" } })
      .status === 0;
  const installPackages = () => apt("install", "-y", "--no-install-recommends", ...packages);
  if (!installPackages() && !(apt("update") && installPackages())) fail("apt-get failed; its output is above.");
  if (!isInstalled())
    fail(`some of ${programs.join(", ")} are missing after the installation of ${packages.join(" and ")}.`);
}

/** One node with two CPUs, without accounting. @param {string} folder */
function createConfig(folder) {
  const host = hostname().split(".")[0];
  return `ClusterName=temper
SlurmctldHost=${host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=${folder}/munge.socket
StateSaveLocation=${folder}/state
SlurmdSpoolDir=${folder}/spool
SlurmctldPidFile=${folder}/slurmctld.pid
SlurmdPidFile=${folder}/slurmd.pid
SlurmctldPort=16817
SlurmdPort=16818
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
JobRequeue=1
KillWait=5
NodeName=${host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=temper Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`;
}

install();
if (process.getuid?.() !== 0) fail("the daemons of Slurm need root.");
const command = process.argv.slice(2);
if (command.length === 0) fail("expected a command: node tools/slurm-cluster.mjs COMMAND…");
const folder = mkdtempSync(join(tmpdir(), "temper-slurm-"));
const environment = { ...process.env, SLURM_CONF: join(folder, "slurm.conf") };
/** @type {import("node:child_process").ChildProcess[]} */
const daemons = [];

/** @param {string} program @param {string[]} args */
function start(program, ...args) {
  daemons.push(spawn(program, args, { env: environment, stdio: "ignore" }));
}

async function stop() {
  for (const daemon of daemons.reverse()) {
    if (daemon.exitCode !== null || daemon.signalCode !== null) continue;
    daemon.kill("SIGTERM");
    await Promise.race([
      new Promise((resolve) => daemon.once("exit", resolve)),
      delay(10_000).then(() => daemon.kill("SIGKILL")),
    ]);
  }
  rmSync(folder, { recursive: true, force: true });
}

async function startCluster() {
  for (const name of ["state", "spool"]) mkdirSync(join(folder, name));
  writeFileSync(environment.SLURM_CONF, createConfig(folder));
  writeFileSync(join(folder, "munge.key"), randomBytes(128), { mode: 0o400 });
  const getPath = (/** @type {string} */ name) => join(folder, name);
  start(
    "munged",
    "--foreground",
    "--force",
    `--key-file=${getPath("munge.key")}`,
    `--socket=${getPath("munge.socket")}`,
    `--pid-file=${getPath("munged.pid")}`,
    `--log-file=${getPath("munged.log")}`,
    `--seed-file=${getPath("munged.seed")}`,
  );
  await delay(1000);
  start("slurmctld", "-D", "-c", "-L", getPath("slurmctld.log"));
  start("slurmd", "-D", "-L", getPath("slurmd.log"));
  for (let i = 0; i < startSeconds; i++) {
    await delay(1000);
    const { stdout } = spawnSync("sinfo", ["--noheader", "--format=%T"], { env: environment, encoding: "utf8" });
    if (/idle/.test(stdout ?? "")) return;
  }
  for (const name of ["munged.log", "slurmctld.log", "slurmd.log"]) {
    try {
      console.error(`${name}:\n${readFileSync(getPath(name), "utf8").split("\n").slice(-15).join("\n")}`);
    } catch {
      console.error(`${name}: not written`);
    }
  }
  throw new Error(`Slurm was not ready after ${startSeconds} seconds. The ends of its logs are above.`);
}

let code = 1;
try {
  await startCluster();
  console.error("Slurm is running: one node, two CPUs");
  const child = spawn(command[0] ?? "", command.slice(1), { env: environment, stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill("SIGTERM"));
  code = await new Promise((resolve) => child.once("exit", (status) => resolve(status ?? 1)));
} catch (error) {
  console.error(`test-slurm: ${error instanceof Error ? error.message : String(error)}`);
} finally {
  await stop();
}
process.exit(code);
