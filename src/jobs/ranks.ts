// Starts the processes of a data-parallel training (ranks), and runs a command as one of them.
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createServer } from "node:net";
import { availableParallelism } from "node:os";
import { type RankRendezvous, readRendezvous, secretVariable } from "../actions/train/rendezvous.js";
import { UserError } from "../base/errors.js";
import { interruptedExitCode, onStopSignals } from "../base/processes.js";
import { ProcessGroup } from "../tensor/index.js";
import { createRanks, type Ranks } from "../train/index.js";
import { temperProgram } from "./temper-program.js";

/** What a command with several processes is given. */
interface ProcessFlags {
  readonly processes?: number | undefined;
  readonly timeout?: number | undefined;
}

/** How long the others may take to stop by themselves after one has failed, in milliseconds. */
const graceMilliseconds = 15_000;

/** The place of this process among others; null if it works alone or starts them. */
export function findRendezvous({ processes = 1, timeout = 600 }: ProcessFlags): RankRendezvous | null {
  const found = readRendezvous(process.env, timeout);
  if (found && processes > 1)
    throw new UserError(
      `--processes ${processes}: this process is already rank ${found.rank} of ${found.size}, started by torchrun or ` +
        "srun. Leave --processes out.",
    );
  return found;
}

/** Runs a body as one of several processes. The others learn why it failed. */
export async function runAsRank(rendezvous: RankRendezvous, body: (ranks: Ranks) => Promise<void>): Promise<void> {
  const group = ProcessGroup.open(rendezvous);
  try {
    await body(createRanks(group));
    group.close();
  } catch (error) {
    group.fail(error);
    throw error;
  }
}

/**
 * Runs the same command in several processes on this host. Returns the exit code of the first one
 * that failed, or null. `report` receives what the processes print for people.
 */
export async function launchRanks(
  argv: readonly string[],
  count: number,
  report: (text: string) => void,
): Promise<number | null> {
  const port = await findFreePort();
  const secret = randomBytes(16).toString("hex");
  const threads = Math.max(1, Math.floor(availableParallelism() / count));
  const children = Array.from({ length: count }, (_, rank) =>
    startRank(removeProcessesFlag(argv), rank, {
      OMP_NUM_THREADS: String(threads),
      ...process.env,
      RANK: String(rank),
      LOCAL_RANK: String(rank),
      WORLD_SIZE: String(count),
      MASTER_ADDR: "127.0.0.1",
      MASTER_PORT: String(port),
      [secretVariable]: secret,
    }),
  );
  const unlisten = onStopSignals(() => {
    for (const child of children) child.kill("SIGTERM");
  });
  for (const [rank, child] of children.entries())
    child.stderr?.on("data", (chunk) => report(String(chunk).replace(/^(?=.)/gm, `[rank ${rank}] `)));
  try {
    return await waitForAll(children, report);
  } finally {
    unlisten();
  }
}

/**
 * Starts a process in its own group: Ctrl-C reaches only this one, which tells each child once.
 * Rank 0 writes to the terminal. What the others report gets their number.
 */
function startRank(argv: readonly string[], rank: number, env: NodeJS.ProcessEnv): ChildProcess {
  const [command, ...words] = [...temperProgram, ...argv] as [string, ...string[]];
  const isFirst = rank === 0;
  // A closed channel tells the child that this process has died.
  const stdio = ["ignore", isFirst ? "inherit" : "ignore", isFirst ? "inherit" : "pipe", "ipc"] as const;
  return spawn(command, words, { stdio: [...stdio], env, detached: true });
}

/** Waits for all processes. Returns the exit code of the first that failed, or null. */
async function waitForAll(
  children: readonly ChildProcess[],
  report: (message: string) => void,
): Promise<number | null> {
  let failure: number | null = null;
  await Promise.all(
    children.map(
      (child, rank) =>
        new Promise<void>((resolve) => {
          child.once("exit", (code, signal) => {
            resolve();
            if (code === 0 || failure !== null) return;
            failure = code ?? 1;
            if (signal !== null) report(`temper: rank ${rank} of ${children.length} was killed by ${signal}.\n`);
            if (failure !== interruptedExitCode) endLater(children);
          });
          child.once("error", () => resolve());
        }),
    ),
  );
  return failure;
}

/** Ends the processes that do not notice the failure of another one. */
function endLater(children: readonly ChildProcess[]): void {
  const end = (): void => {
    for (const child of children) if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
  };
  setTimeout(end, graceMilliseconds).unref();
}

function removeProcessesFlag(argv: readonly string[]): string[] {
  return argv.filter(
    (word, i) => word !== "--processes" && argv[i - 1] !== "--processes" && !word.startsWith("--processes="),
  );
}

async function findFreePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("There is no free port.");
  return address.port;
}
