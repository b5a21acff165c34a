// Starts the processes of a data-parallel training, and trains as one of them.
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createServer } from "node:net";
import { availableParallelism } from "node:os";
import { checkBatchSize, joinTraining } from "../actions/train/train.js";
import { Interrupted, UserError } from "../base/errors.js";
import { interruptedExitCode, onStopSignals } from "../base/processes.js";
import type { ResolvedRun } from "../settings/read-config.js";
import { ProcessGroup } from "../tensor/index.js";
import { type Ranks, singleRank } from "../train/index.js";
import { chooseRankDevice, type RankRendezvous, readRendezvous, secretVariable } from "./rendezvous.js";
import { temperProgram } from "./temper-program.js";

/** The others get this many milliseconds to stop by themselves after one has failed. */
const graceMilliseconds = 15_000;

/** Trains in several processes, or as one of them. Returns this process's exit code if not 0. */
export async function trainInProcesses(
  run: ResolvedRun,
  {
    processes = 1,
    timeout = 600,
    argv,
    report,
  }: {
    readonly processes?: number | undefined;
    readonly timeout?: number | undefined;
    readonly argv: readonly string[];
    readonly report: (text: string) => void;
  },
  train: (run: ResolvedRun, ranks: Ranks) => Promise<void>,
): Promise<number | null> {
  const rendezvous = readRendezvous(process.env, timeout);
  if (!rendezvous) {
    checkBatchSize(processes, run.config);
    if (processes > 1) return launchRanks(argv, processes, report);
    await train(run, singleRank);
    return null;
  }
  if (processes > 1)
    throw new UserError(
      `--processes ${processes}: this process is already rank ${rendezvous.rank} of ${rendezvous.size}, started by ` +
        "torchrun or srun. Leave --processes out.",
    );
  checkBatchSize(rendezvous.size, run.config);
  return trainAsRank(run, rendezvous, train);
}

/** Trains as one of several processes. The others learn why it failed. */
async function trainAsRank(
  run: ResolvedRun,
  rendezvous: RankRendezvous,
  train: (run: ResolvedRun, ranks: Ranks) => Promise<void>,
): Promise<number | null> {
  const device = chooseRankDevice(run.config.device, rendezvous.localRank);
  const own = { ...run, config: { ...run.config, device } };
  const group = ProcessGroup.open(rendezvous);
  try {
    await (group.rank === 0 ? train(own, group) : join(own, group));
    group.close();
    return null;
  } catch (error) {
    group.fail(error);
    if (group.rank > 0 && error instanceof Interrupted) return interruptedExitCode;
    throw error;
  }
}

async function join(run: ResolvedRun, ranks: Ranks): Promise<void> {
  const stop = new AbortController();
  const onSignal = (): void => (stop.signal.aborted ? process.exit(interruptedExitCode) : stop.abort());
  let unlisten = (): void => undefined;
  try {
    await joinTraining(run, ranks, {
      signal: stop.signal,
      onEvent(event) {
        // Before the first step nothing would be lost, so a signal simply ends the process.
        if (event.type === "start") unlisten = onStopSignals(onSignal);
      },
    });
  } finally {
    unlisten();
  }
}

async function launchRanks(
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
  let isStopping = false;
  const unlisten = onStopSignals(() => {
    // A process that waits for another one does not notice a repeated signal.
    for (const child of children) child.kill(isStopping ? "SIGKILL" : "SIGTERM");
    isStopping = true;
  });
  for (const [rank, child] of children.entries())
    child.stderr?.on("data", (chunk) => report(String(chunk).replace(/^(?=.)/gm, `[rank ${rank}] `)));
  try {
    return await waitForAll(children, report);
  } finally {
    unlisten();
  }
}

/** Starts a process in its own group, so that Ctrl-C reaches only this one. Rank 0 has the terminal. */
function startRank(argv: readonly string[], rank: number, env: NodeJS.ProcessEnv): ChildProcess {
  const [command, ...words] = [...temperProgram, ...argv] as [string, ...string[]];
  const isFirst = rank === 0;
  // A closed channel tells the child that this process has died.
  const stdio = ["ignore", isFirst ? "inherit" : "ignore", isFirst ? "inherit" : "pipe", "ipc"] as const;
  return spawn(command, words, { stdio: [...stdio], env, detached: true });
}

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
